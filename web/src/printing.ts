// For printing: opens all folded sections, and switches to the light colours and the width of the paper.
const PAPER = 'printing';

export function prepare_printing(): void {
  let closed: HTMLDetailsElement[] = [];
  addEventListener('beforeprint', () => {
    closed = [...document.querySelectorAll<HTMLDetailsElement>('details:not([open])')];
    for (const details of closed) details.open = true;
    document.documentElement.classList.add(PAPER);
    dispatchEvent(new Event('headroom:relayout'));
  });
  addEventListener('afterprint', () => {
    for (const details of closed) details.open = false;
    document.documentElement.classList.remove(PAPER);
    dispatchEvent(new Event('headroom:relayout'));
  });
}
