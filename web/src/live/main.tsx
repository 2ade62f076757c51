import {render} from 'preact';
import 'uplot/dist/uPlot.min.css';
import '../style.css';
import './live.css';
import {Page} from './page';

const root = document.getElementById('page')!;
root.textContent = '';
render(<Page />, root);
