// Shortens each path to its last parts: as few as needed to distinguish it from the other paths.
export function display_names(paths: string[]): string[] {
  const parts = paths.map((path) => path.split('/'));
  const tail = (path: string[], count: number) => path.slice(-count).join('/');
  return parts.map((path, i) => {
    let count = 1;
    while (count < path.length && parts.some((other, k) => k !== i && tail(other, count) === tail(path, count))) count++;
    return tail(path, count);
  });
}
