// Style sheets are imported so that esbuild bundles them; they export nothing.
declare module '*.css';
