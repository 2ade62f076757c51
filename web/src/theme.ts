// Canvas charts read their colours from the CSS variables at drawing time, so they follow the light and dark scheme and
// the print colours.

export function css_color(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// Okabe and Ito's palette (safe for colour-blind readers), adapted per scheme in style.css.
export const SERIES_COLORS = Array.from({length: 8}, (_, i) => `--series-${i + 1}`);
