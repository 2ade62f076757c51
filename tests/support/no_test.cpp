// The program that owns the precompiled header of all tests. CMake requires one with the same compile
// options.
int main() { return 0; }
