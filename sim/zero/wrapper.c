/* wrapper.c: hooks that the 16-bit optimizers share.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/zero/wrapper.h"

void
zs_wrapped_before_forward_pass (void *self, ZsPlan *plan, int step, int micro_step, bool boundary)
{
  (void) plan;
  (void) step;
  (void) micro_step;
  ((ZsWrapped *) self)->boundary = boundary;
}

ZsTensor
zs_wrapped_weight (void *self, int32_t parameter)
{
  const ZsWrapped *wrapped = self;
  int32_t group = wrapped->group_of == NULL ? 0 : wrapped->group_of[parameter];

  if (wrapped->storage[parameter] != ZS_NO_TENSOR || group < 0)
    return wrapped->storage[parameter];
  return wrapped->flat[group];
}
