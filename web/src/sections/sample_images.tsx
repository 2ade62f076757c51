// Annotated sample frames. Enter or a click enlarges a frame; the arrow keys move to the next one, Escape closes.
import {useRef, useState} from 'preact/hooks';

interface Props {
  paths: string[];
  images: Record<string, string>;
  name: string;
}

export function SampleImages({paths, images, name}: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [shown, set_shown] = useState(0);
  const present = paths.filter((path) => images[path]);
  const absent = paths.filter((path) => !images[path]);
  const open = (index: number) => {
    set_shown(index);
    dialog.current?.showModal();
  };
  const turn = (event: KeyboardEvent) => {
    const move = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0;
    if (move !== 0) set_shown((now) => (now + move + present.length) % present.length);
  };
  const file_name = (path: string) => path.slice(path.lastIndexOf('/') + 1);
  return (
    <div>
      <h3>Annotated samples</h3>
      <ul class="samples">
        {present.map((path, i) => (
          <li>
            <button type="button" onClick={() => open(i)} aria-label={`Enlarge ${file_name(path)}, sample ${i + 1} of ${present.length} of ${name}`}>
              <img src={images[path]} alt="" />
              <span>{file_name(path)}</span>
            </button>
          </li>
        ))}
      </ul>
      {absent.length > 0 && <p class="quiet">Not in this file, but in the run folder: {absent.join(', ')}.</p>}
      <dialog ref={dialog} onKeyDown={turn} onClick={(event) => event.target === dialog.current && dialog.current?.close()}
        aria-label={`Sample of ${name}`}>
        {present[shown] && (
          <>
            <img src={images[present[shown]!]} alt={`Annotated frame ${file_name(present[shown]!)}`} />
            <form method="dialog"><span>{present[shown]}</span><button>Close</button></form>
          </>
        )}
      </dialog>
    </div>
  );
}
