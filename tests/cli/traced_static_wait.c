/* A static program that waits until its standard input ends. */
#include <stdio.h>

int main(void) {
  puts("ready");
  fflush(stdout);
  while (getchar() != EOF) {
  }
  return 0;
}
