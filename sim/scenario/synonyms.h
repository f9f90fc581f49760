/* synonyms.h: what people write for a setting, a model or some GPUs, in the words of this program.
 * SPDX-License-Identifier: MIT */
#pragma once

#include <glib.h>
#include <stdbool.h>

/* The path of the setting that WORD means ("seq_len": "training.sequence_length"), or NULL.  Only words
 * whose values are written alike in both. */
const char *zs_setting_of_word (const char *word);
/* Is WORD the name of a variable that a job's environment may set ("NCCL_P2P_DISABLE")? */
bool        zs_is_variable (const char *word);

/* "2xA100-40G", "8 x H100", "8*H100", "H100:8" and "H100x8" as a count and a name; a name alone is one
 * GPU.  Free both. */
void  zs_split_gpus (const char *text, char **ret_count, char **ret_name);

/* NAME without the organisation in front and the words of a tuned model behind
 * ("unsloth/Llama-3.2-1B-Instruct": "Llama-3.2-1B"), or NULL if it has neither.  Free it. */
char *zs_base_of_model (const char *name);
