/* Holds 8 MiB within a scope, for `headroom trace`. */
#include <headroom/scope.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
  headroom_scope_push("load the map");
  char* map = malloc(8 << 20);
  headroom_scope_pop();
  if (map == NULL) return 1;
  memset(map, 1, 8 << 20);
  const int last = map[(8 << 20) - 1];
  free(map);
  return last == 1 ? 0 : 1;
}
