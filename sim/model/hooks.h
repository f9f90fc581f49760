/* hooks.h: what a framework adds around the model's own work.
 * SPDX-License-Identifier: MIT
 *
 * sim/model emits a micro-step as PyTorch runs it and calls these at the places where the real
 * software calls the framework.  DeepSpeed's stages (sim/zero), FSDP (sim/fsdp) and plain PyTorch
 * (sim/model/plain.c) each fill one struct.  A NULL member does nothing.
 */
#pragma once

#include "sim/model/model.h"
#include "sim/plan/plan.h"

typedef struct {
  void *self;

  /* Phase `load`: how the parameters get to the GPU (zero.Init, .to ("cuda"), ...). */
  void (*load) (void *self, ZsPlan *plan);
  /* Phase `init`: deepspeed.initialize (), fully_shard (), the optimizer's construction. */
  void (*init) (void *self, ZsPlan *plan);

  /* Around one micro-step.  before_backward_pass runs when the caller has the loss and calls
   * backward (); after_backward_pass when the autograd engine has returned. */
  void (*before_forward_pass)  (void *self, ZsPlan *plan, int step, int micro_step, bool boundary);
  void (*after_forward_pass)   (void *self, ZsPlan *plan);
  void (*before_backward_pass) (void *self, ZsPlan *plan);
  void (*after_backward_pass)  (void *self, ZsPlan *plan);

  /* Module hooks, as register_forward_pre_hook and friends see them; with activation checkpointing
   * the forward hooks run again inside backward. RECOMPUTE says so. */
  void (*before_forward)  (void *self, ZsPlan *plan, int32_t module, bool recompute);
  void (*after_forward)   (void *self, ZsPlan *plan, int32_t module, bool recompute);
  void (*before_backward) (void *self, ZsPlan *plan, int32_t module);
  void (*after_backward)  (void *self, ZsPlan *plan, int32_t module);

  /* AccumulateGrad of PARAMETER: GRADIENT comes with one reference, which the framework now owns. */
  void (*gradient) (void *self, ZsPlan *plan, int32_t parameter, ZsTensor gradient);

  /* The storage that holds PARAMETER's full weight now (borrowed), or ZS_NO_TENSOR.  What saves the
   * weight for backward takes a reference, so that a release does not free it. */
  ZsTensor (*weight) (void *self, int32_t parameter);
  /* Does F.linear save the parameter object instead of the tensor (DeepSpeed's memory-efficient
   * linear)?  Then no reference is taken for it. */
  bool linear_saves_no_weight;

  /* Are the weights of a decoder layer views of one flat parameter (FSDP1)?  Then autograd makes the
   * gradients of all of them if one trains. */
  bool layer_trains_as_one;
  /* The stream on which gradients that meet at a weight are added (FSDP1's views were made on another). */
  uint8_t weight_stream;

  /* Is the gradient of the logits, as of each output of the model, multiplied by a factor (hooks on the
   * outputs)?  One more tensor and kernel of their size. */
  bool scales_output_gradients;

  /* How often the framework multiplies the loss before backward (DeepSpeed: by the loss scale, and by
   * 1 / accumulation); 0: it leaves that to the training loop. */
  int loss_factors;
  /* Does after_backward_pass run as a callback of the autograd engine, before backward () returns? */
  bool ends_inside_backward;

  /* Phase `optimizer`: step () and zero_grad (). */
  void (*step) (void *self, ZsPlan *plan, int step);

  /* Phase `save`: the model's weights to disk, as save_pretrained () does. */
  void (*save) (void *self, ZsPlan *plan);

  /* A number for everything that later calls depend on, but for the numbers of step and micro-step
   * (whether the micro-step is the first of its step may count): where it is the same between two
   * micro-steps, both go on alike.  Without EVENTS, the numbers of events that are kept need not count:
   * all have completed.  NULL: not known, and nothing is ever taken for a repetition. */
  uint64_t (*digest) (const void *self, bool events);

  void (*free) (void *self);
} ZsHooks;
