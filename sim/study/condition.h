/* condition.h: small expressions over settings: "stage == 3 and prefetch <= 2 * bucket".
 * SPDX-License-Identifier: MIT
 *
 *   or, and, not, == != < <= > >=, + - * / %, parentheses, numbers (5e8), 'words' in quotes, and names of
 *   settings.  A name that is no setting of the sweep is a word: `offload_optimizer.device == cpu`.
 *
 * Numbers compare as numbers, anything else as text; true is not 0 and not empty.  A condition is made
 * once and asked in any thread. */
#pragma once

#include <glib.h>
#include <stdbool.h>

typedef struct ZsCondition ZsCondition;

/* Which variable is called NAME; -1: none. */
typedef int (*ZsConditionFind) (void *self, const char *name);

/* NULL and ERROR (it says which column of TEXT) if TEXT is no condition. */
ZsCondition *zs_condition_new  (const char *text, ZsConditionFind find, void *self,
                                GError **error) G_GNUC_WARN_UNUSED_RESULT;
void         zs_condition_free (ZsCondition *condition);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsCondition, zs_condition_free)

/* VALUES[i] is the text of variable i. */
bool         zs_condition_holds (const ZsCondition *condition, const char *const *values);
/* Does it ask for VARIABLE? */
bool         zs_condition_uses  (const ZsCondition *condition, int variable);
