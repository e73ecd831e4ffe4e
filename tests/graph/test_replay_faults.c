#include "tests/graph/replays.h"
int main(void) { return 0; }
