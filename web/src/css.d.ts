// Style sheets are imported for esbuild, which bundles them; they export nothing.
declare module '*.css';
