// Reads the inert script elements that src/report/page.cpp puts into a page.

// Without `otherwise`, the page must have the element.
export function embedded<Data>(page: Document, id: string, otherwise?: Data): Data {
  const text = page.getElementById(id)?.textContent;
  if (text) return JSON.parse(text) as Data;
  if (otherwise === undefined) throw new Error('the page contains no data: it is the empty template');
  return otherwise;
}

// A newer schema version may use the same keys with other meanings, so a page rejects it.
export function check_version(name: string, version: number, supported: number): void {
  if (version > supported) throw new Error(`the ${name} has schema version ${version}, but this page supports version ${supported}`);
}
