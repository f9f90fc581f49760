/* scenario-versions.c: which software a scenario is about.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/scenario/scenario-internal.h"

/* The newest releases that were read or measured, and the oldest from which differences are known. */
static void
note_version (ZsReader *reader, const ZsNode *node, ZsVersion version, const char *software,
              ZsVersion oldest, ZsVersion newest)
{
  bool is_new = version > newest + 999; /* a patch release of the newest changes nothing here */
  g_autofree char *asked = zs_version_format (version);
  g_autofree char *known = zs_version_format (is_new ? newest : oldest);

  if (node != NULL && (is_new || version < oldest))
    zs_notes_add (reader->notes, ZS_NOTE_INFO, "unknown-version", node,
                  "%s %s is %s than any known here (%s): what is different in it is not simulated",
                  software, asked, is_new ? "newer" : "older", known);
}

#define TORCH_VERSION        ZS_VERSION (2, 11, 0)
#define TRANSFORMERS_VERSION ZS_VERSION (5, 17, 0)

ZsVersions
zs_reader_asked_versions (const ZsReader *reader)
{
  const ZsNode *torch = zs_reader_find (reader, "training.torch_version");
  const ZsNode *transformers = zs_reader_find (reader, "training.transformers_version");
  ZsVersions versions = { .of = { [ZS_SOFTWARE_TORCH] = TORCH_VERSION,
                                  [ZS_SOFTWARE_TRANSFORMERS] = TRANSFORMERS_VERSION } };

  if (torch != NULL && torch->kind == ZS_NODE_SCALAR)
    zs_version_parse (torch->text, &versions.of[ZS_SOFTWARE_TORCH]);
  if (transformers != NULL && transformers->kind == ZS_NODE_SCALAR)
    zs_version_parse (transformers->text, &versions.of[ZS_SOFTWARE_TRANSFORMERS]);
  return versions;
}

void
zs_reader_versions (ZsReader *reader, bool deepspeed, const ZsNode *const given[ZS_N_GIVEN_VERSIONS],
                    const ZsVersion values[ZS_N_GIVEN_VERSIONS])
{
  enum { FRAMEWORK, TORCH, TRANSFORMERS };
  ZsVersions *versions = &reader->scenario->cluster.versions;

  versions->of[ZS_SOFTWARE_DEEPSPEED] =
      given[FRAMEWORK] != NULL && deepspeed ? values[FRAMEWORK] : ZS_VERSION (0, 19, 5);
  versions->of[ZS_SOFTWARE_TORCH] = given[TORCH] != NULL ? values[TORCH] : TORCH_VERSION;
  versions->of[ZS_SOFTWARE_TRANSFORMERS] =
      given[TRANSFORMERS] != NULL ? values[TRANSFORMERS] : TRANSFORMERS_VERSION;
  if (deepspeed)
    zs_reader_default (reader, "training.framework_version", "zerosim", "0.19.5");
  zs_reader_default (reader, "training.torch_version", "zerosim", "2.11");
  zs_reader_default (reader, "training.transformers_version", "zerosim", "5.17");
  if (deepspeed)
    note_version (reader, given[FRAMEWORK], values[FRAMEWORK], "DeepSpeed",
                  ZS_VERSION (0, 7, 0), ZS_VERSION (0, 19, 6));
  note_version (reader, given[TORCH], values[TORCH], "PyTorch",
                ZS_VERSION (2, 0, 0), ZS_VERSION (2, 11, 0));
  note_version (reader, given[TRANSFORMERS], values[TRANSFORMERS], "transformers",
                ZS_VERSION (4, 31, 0), ZS_VERSION (5, 17, 0));
  note_version (reader, zs_reader_find (reader, "cluster.nccl_version"),
                versions->of[ZS_SOFTWARE_NCCL], "NCCL", ZS_VERSION (2, 14, 0),
                ZS_VERSION (2, 30, 0));
  if (versions->of[ZS_SOFTWARE_NCCL] == 0) {
    versions->of[ZS_SOFTWARE_NCCL] = zs_nccl_of_torch (versions->of[ZS_SOFTWARE_TORCH]);
    g_autofree char *text = zs_version_format (versions->of[ZS_SOFTWARE_NCCL]);

    zs_reader_default (reader, "cluster.nccl_version", "this PyTorch's wheel", "%s", text);
  }
}
