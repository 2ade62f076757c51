// Reads the data in the page, names the page after it and shows it; or says why that failed.
import {type ComponentChild, render} from 'preact';
import 'uplot/dist/uPlot.min.css';
import './style.css';
import {prepare_printing} from './printing';

interface Shown<Data> {
  name: string;       // "report"
  same_data: string;  // where the reader finds the same data, a sentence
  read: (page: Document) => Data;
  title: (data: Data) => string;
  view: (data: Data) => ComponentChild;
}

export function show<Data>({name, same_data, read, title, view}: Shown<Data>): void {
  const root = document.getElementById('page')!;
  root.textContent = '';
  try {
    const data = read(document);
    document.title = `${title(data)} · Headroom`;
    render(view(data), root);
    prepare_printing();
  } catch (problem) {
    const reason = problem instanceof Error ? problem.message : String(problem);
    render(<p class="broken" role="alert">Cannot show this {name}: {reason}. {same_data}</p>, root);
  }
}

export const file_name = (path: string): string => path.replace(/.*\//, '');
