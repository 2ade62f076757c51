// The program that owns the precompiled header of all tests: CMake wants one that is compiled as they are.
int main() { return 0; }
