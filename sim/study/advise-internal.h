/* advise-internal.h: what the files of `advise` share.  SPDX-License-Identifier: MIT */
#pragma once

#include "sim/study/advise.h"

/* ---- advise-search.c ---- */
/* Runs candidates into ADVICE's trials.  False: it was stopped. */
bool zs_advise_search (ZsAdvice *advice);

/* ---- advise-hardware.c ---- */
/* Nothing fits: looks for machines on which the most frugal settings do.  False: it was stopped. */
bool zs_advise_hardware (ZsAdvice *advice, const ZsScenario *scenario, ZsCatalogue *catalogue);
void zs_hardware_advice_free (gpointer data);

/* ---- ready-config.c: what a person pastes ---- */

/* The ds_config of SCENARIO with everything that was set, into the object that is open in WRITER. */
void  zs_ready_ds_config (const ZsScenario *scenario, ZsJsonWriter *writer);
/* accelerate's configuration of FSDP; nothing for others. */
void  zs_ready_accelerate (const ZsScenario *scenario, ZsJsonWriter *writer);
/* TrainingArguments of Hugging Face. */
void  zs_ready_training_arguments (const ZsScenario *scenario, ZsJsonWriter *writer);
/* "NAME=VALUE" of the environment; free with g_strfreev. */
char **zs_ready_environment (const ZsScenario *scenario);
