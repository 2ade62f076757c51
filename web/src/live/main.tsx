import {render} from 'preact';
import 'uplot/dist/uPlot.min.css';
import '../style.css';
import './live.css';
import {host_name} from './data';
import {Page} from './page';

const root = document.getElementById('page')!;
root.textContent = '';
document.title = `${host_name(document)} – Headroom live`;
render(<Page />, root);
