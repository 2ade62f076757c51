// Canvas charts take their colours from the same CSS variables as everything else, at the time of drawing, so
// that they follow the light and dark scheme and printing.

export function css_color(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// Okabe and Ito's palette (safe for colour-blind readers), adapted per scheme in style.css.
export const SERIES_COLORS = Array.from({length: 8}, (_, i) => `--series-${i + 1}`);
