// The current width of an element. Charts contain text, so they cannot be scaled like pictures. The page lays them out
// again when the width of the window or of the paper changes.
import {type RefObject} from 'preact';
import {useLayoutEffect, useState} from 'preact/hooks';

export function use_width(element: RefObject<HTMLElement | null>): number {
  const [width, set_width] = useState(0);
  useLayoutEffect(() => {
    const measure = () => {
      if (element.current) set_width(Math.floor(element.current.getBoundingClientRect().width));
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element.current!);
    addEventListener('headroom:relayout', measure);
    return () => {
      observer.disconnect();
      removeEventListener('headroom:relayout', measure);
    };
  }, []);
  return width;
}
