// Formats a stack as one line, exactly as the terminal does (src/report/recording/stack_text.cpp).

// Functions that only forward an allocation; they do not identify the place.
const PASSES_ON = /^(operator new|std::|__gnu_cxx::|libheadroom_trace|void\* std::)|malloc|realloc|calloc|memalign|aligned_alloc|strdup/i;
const STARTS_THREADS = /^(__libc_start|_start$|start_thread|_*clone)/;

// A function's name without parameters and template arguments.
export function short_function(name: string): string {
  let text = '';
  let depth = 0;
  for (let i = 0; i < name.length; i++) {
    const rest = name.slice(i, i + 24);
    const whole = /^(operator(\(\)|<<|<=>|<=|<|->|>>|>)|\(anonymous namespace\)|\(many small (stacks|layers)\)|\(no stack was taken\)|\(outside of any layer\))/.exec(rest)?.[0];
    if (depth === 0 && whole) {
      text += whole;
      i += whole.length - 1;
    } else if (name[i] === '(' || name[i] === '<') depth++;
    else if ((name[i] === ')' || name[i] === '>') && depth > 0) depth--;
    else if (depth === 0) text += name[i];
  }
  text = text.replace(/ const$/, '').trim();
  // The name of a template function starts with its return type: "void run".
  if (!text.includes('operator') && !text.startsWith('(')) text = text.slice(text.lastIndexOf(' ') + 1);
  return text || name;
}

// Innermost first, without functions that only forward allocations, and without the callers of main.
export function telling_frames(frames: string[]): string[] {
  const first = frames.findIndex((name) => !PASSES_ON.test(name.replace(/[(<].*/, '')));
  const shown: string[] = [];
  for (const frame of frames.slice(Math.max(0, first))) {
    if (shown.length > 0 && STARTS_THREADS.test(frame)) break;
    const name = short_function(frame);
    if (name !== shown[shown.length - 1]) shown.push(name);
  }
  return shown;
}

// "libfoo.so+0x1a2b" or "0x7f0012345678": the function is unknown.
export function is_place(name: string): boolean {
  return /(^|\+)0x[0-9a-f]+$/.test(name);
}
