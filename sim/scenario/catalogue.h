/* catalogue.h: finds what comes with the program by name: GPUs, language models, machines, fabrics, ...
 * SPDX-License-Identifier: MIT
 *
 * One file each in a folder below the data directory: $ZEROSIM_DATADIR if set, else where the program
 * was installed, else near the program.  A file's base name is its name; `aliases` in it are other spellings.  Names are
 * compared without case, blanks, '-' and '_', without a vendor's name in front, and "40G" is "40GB".
 *
 * A catalogue may be shared by threads.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>

#include "sim/hardware/gpu.h"
#include "sim/io/document.h"
#include "sim/model/shape.h"
#include "sim/scenario/notes.h"

typedef enum {
  ZS_CATALOGUE_GPUS,        /* models/gpus */
  ZS_CATALOGUE_MODELS,      /* models/llms */
  ZS_CATALOGUE_INSTANCES,   /* models/instances */
  ZS_CATALOGUE_FABRICS,     /* models/fabrics */
  ZS_CATALOGUE_NETWORKS,    /* models/networks */
  ZS_CATALOGUE_SCENARIOS,   /* scenarios */
  ZS_N_CATALOGUES
} ZsCatalogueKind;

typedef struct {
  const char  *name;        /* of the file */
  const char  *path;
  const char *const *aliases;   /* NULL-terminated */
  const char  *form;        /* of a GPU: "sxm", "pcie", ...; "" */
  const ZsDocument *document;   /* NULL: the file could not be read */
  const char  *error;       /* then: why */
} ZsCatalogueEntry;

typedef struct ZsCatalogue ZsCatalogue;

/* DATADIR: NULL for the usual place. */
ZsCatalogue *zs_catalogue_new     (const char *datadir) G_GNUC_WARN_UNUSED_RESULT;
void         zs_catalogue_free    (ZsCatalogue *catalogue);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsCatalogue, zs_catalogue_free)
const char  *zs_catalogue_datadir (const ZsCatalogue *catalogue);
/* Its folder models/. */
const char  *zs_catalogue_models  (const ZsCatalogue *catalogue);
/* "GPU", "model", "machine", ... */
const char  *zs_catalogue_kind_name (ZsCatalogueKind kind);

/* All entries of KIND by name; *RET_N of them.  Owned by the catalogue. */
const ZsCatalogueEntry *zs_catalogue_list (ZsCatalogue *catalogue, ZsCatalogueKind kind, int *ret_n);

/* The entry called NAME.  If several are (A100-40G is an SXM4 and a PCIe card), FORM ("sxm", "pcie"; NULL
 * unknown) decides, and without it the SXM one is taken; *RET_OPEN (may be NULL) then says that the name
 * left it open.  NULL and ERROR (with the nearest names) if there is none, or several that differ in
 * more than their form. */
const ZsCatalogueEntry *zs_catalogue_find (ZsCatalogue *catalogue, ZsCatalogueKind kind,
                                           const char *name, const char *form, bool *ret_open,
                                           GError **error);
/* Do the two spellings mean the same name? */
bool zs_names_equal (const char *a, const char *b);
