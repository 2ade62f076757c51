// Combines equal neighbouring cells of a segment, so that each run is drawn as one rectangle.
export function runs_of(cells: string): {state: string; from: number; length: number}[] {
  const runs: {state: string; from: number; length: number}[] = [];
  for (let i = 0; i < cells.length; i++) {
    const last = runs[runs.length - 1];
    if (last && last.state === cells[i]) last.length++;
    else runs.push({state: cells[i]!, from: i, length: 1});
  }
  return runs;
}
