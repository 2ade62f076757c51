// The last part of each path, and as much of what is before it as tells it from the others.
export function display_names(paths: string[]): string[] {
  const parts = paths.map((path) => path.split('/'));
  const tail = (path: string[], count: number) => path.slice(-count).join('/');
  return parts.map((path, i) => {
    let count = 1;
    while (count < path.length && parts.some((other, k) => k !== i && tail(other, count) === tail(path, count))) count++;
    return tail(path, count);
  });
}
