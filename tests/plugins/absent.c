/* A library whose recorded name exists nowhere: see needs_absent.c. */
int absent_answer(void);
__attribute__((visibility("default"))) int absent_answer(void) { return 42; }
