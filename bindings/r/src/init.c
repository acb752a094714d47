/* The one way from R into Rust. R's own errors are jumps; none may cross a frame of Rust. So every call of R's API that
   can jump goes through zaro_protect, which catches the jump, and zaro_call resumes it when Rust has returned. */
#define R_NO_REMAP
#include <setjmp.h>
#include <stdint.h>
#include <R.h>
#include <Rinternals.h>
#include <R_ext/Rdynload.h>

/* The end of an interrupt, as R itself runs it. */
extern void Rf_onintr(void);

/* In Rust. A result with the lowest bit set is `token`: a jump has to be resumed. */
extern SEXP zaro_r_call(SEXP op, SEXP args, int *interrupted);

static SEXP token;

static void jump_back(void *buffer, Rboolean jump) {
  if (jump) longjmp(*(jmp_buf *)buffer, 1);
}

SEXP zaro_protect(SEXP (*work)(void *), void *data) {
  jmp_buf buffer;
  if (setjmp(buffer)) return (SEXP)((uintptr_t)token | 1);
  return R_UnwindProtect(work, data, jump_back, &buffer, token);
}

static void check(void *unused) {
  (void)unused;
  R_CheckUserInterrupt();
}

/* Whether Ctrl-C was pressed. R_ToplevelExec stops the jump, and forgets the interrupt. */
int zaro_interrupted(void) { return !R_ToplevelExec(check, NULL); }

static SEXP zaro_call(SEXP op, SEXP args) {
  int interrupted = 0;
  SEXP result = zaro_r_call(op, args, &interrupted);
  if ((uintptr_t)result & 1) R_ContinueUnwind((SEXP)((uintptr_t)result & ~(uintptr_t)1));
  if (interrupted) {
    PROTECT(result);
    Rf_onintr();
    /* Reached only while interrupts are suspended: the caller gets a failure of the kind "cancelled". */
    UNPROTECT(1);
  }
  return result;
}

static const R_CallMethodDef methods[] = {{"zaro_call", (DL_FUNC)&zaro_call, 2}, {NULL, NULL, 0}};

void R_init_zaro(DllInfo *dll) {
  R_registerRoutines(dll, NULL, methods, NULL, NULL);
  R_useDynamicSymbols(dll, FALSE);
  R_forceSymbols(dll, TRUE);
  token = R_MakeUnwindCont();
  R_PreserveObject(token);
}
