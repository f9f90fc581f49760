# SPDX-License-Identifier: MIT
libzerosim_core_la_SOURCES += \
  sim/model/attention-math.c \
  sim/model/quantize.c \
  sim/model/quantize.h \
  sim/model/attention-sdpa-math.c \
  sim/model/attention.c \
  sim/model/autocast.c \
  sim/model/cache.c \
  sim/model/checkpoint.c \
  sim/model/ddp.c \
  sim/model/emit-internal.h \
  sim/model/emit.h \
  sim/model/emitter.c \
  sim/model/hooks.h \
  sim/model/kernels-liger.c \
  sim/model/kernels.c \
  sim/model/layer.c \
  sim/model/liger-loss.c \
  sim/model/liger.c \
  sim/model/linear.c \
  sim/model/loss.c \
  sim/model/mask.c \
  sim/model/micro-step.c \
  sim/model/model.c \
  sim/model/model.h \
  sim/model/norm.c \
  sim/model/optimizer-8bit.c \
  sim/model/optimizer-adafactor.c \
  sim/model/optimizer-internal.h \
  sim/model/optimizer.c \
  sim/model/optimizer.h \
  sim/model/plain.c \
  sim/model/ddp.h sim/model/plain.h \
  sim/model/rotary.c \
  sim/model/shape.h
