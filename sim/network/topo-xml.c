/* topo-xml.c: NCCL's topology XML (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE).
 * SPDX-License-Identifier: MIT
 *
 * system > cpu > pci (nested) > gpu > nvlink, c2c; nic > net.  Format: NCCL 2.30 src/graph/xml.cc.
 * Files made by hand for virtual machines leave much out (NCCL fills it in from the machine): what is
 * taken from the GPU's own description instead is said in a warning. */
#include "config.h"

#include "sim/network/topology-build.h"
#include "sim/network/xml.h"

#include "sim/base/error.h"

#include <stdlib.h>
#include <string.h>

typedef enum { DEVICE_CPU, DEVICE_SWITCH, DEVICE_GPU, DEVICE_NIC, DEVICE_OTHER } DeviceKind;

typedef struct {
  DeviceKind kind;
  int        parent, part, line;
  bool       leaf, no_class, has_gpu, has_rank, drop;
  char       bus[64], name[24];
  int        numa, family, model;
  ZsCpuVendor vendor;
  int        generation, width;      /* 0 unknown */
  int        dev, sm;
  int64_t    speed;                  /* of the net, Mb/s */
  bool       gdr;
  int64_t    c2c;                    /* MB/s */
} Device;

typedef struct {
  int  gpu;                          /* device */
  char target[64], tclass[16];
  int  count;
} Nvlink;

typedef struct {
  const char *file;
  ZsXml      *xml;
  GArray     *devices;               /* Device */
  GArray     *nvlinks;               /* Nvlink */
  int         stack[64], depth;      /* device of each open element, -1 none */
  bool        seen_system;
} Reader;

static Device *
device_at (const Reader *reader, int i)
{
  return &g_array_index (reader->devices, Device, i);
}

static bool G_GNUC_PRINTF (3, 4)
fail (const Reader *reader, GError **error, const char *format, ...)
{
  va_list arguments;

  va_start (arguments, format);
  g_autofree char *text = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "%s:%d:1: %s", reader->file, zs_xml_line (reader->xml), text);
  return false;
}

/* A whole number in an attribute; ABSENT if it is not there or empty. */
static bool
number (const Reader *reader, const char *name, int64_t absent, int64_t *ret, GError **error)
{
  const char *text = zs_xml_attribute (reader->xml, name);
  char *end;

  *ret = absent;
  if (text == NULL || *text == '\0')
    return true;
  double value = g_ascii_strtod (text, &end);

  if (*end != '\0' || !(value >= -1e15 && value <= 1e15))
    return fail (reader, error, "%s=\"%s\" is not a number", name, text);
  *ret = (int64_t) value;
  return true;
}

static int
generation_of (const char *speed)
{
  static const double RATES[] = { 2.5, 5, 8, 16, 32, 64 };
  double rate = speed != NULL ? g_ascii_strtod (speed, NULL) : 0;

  for (int g = 0; g < 6; g++)
    if (rate == RATES[g])
      return g + 1;
  return 0;
}

static DeviceKind
kind_of (const char *class)
{
  if (class == NULL)
    return DEVICE_OTHER;
  if (g_str_has_prefix (class, "0x0302") || g_str_has_prefix (class, "0x0300"))
    return DEVICE_GPU;
  if (g_str_has_prefix (class, "0x02"))
    return DEVICE_NIC;
  return g_str_has_prefix (class, "0x0604") ? DEVICE_SWITCH : DEVICE_OTHER;
}

static ZsCpuVendor
vendor_of (const char *arch, const char *vendor)
{
  if (arch != NULL && (g_str_equal (arch, "arm64") || g_str_equal (arch, "aarch64")))
    return ZS_CPU_ARM;
  if (arch != NULL && g_str_has_prefix (arch, "ppc"))
    return ZS_CPU_POWER;
  return vendor != NULL && g_str_equal (vendor, "AuthenticAMD") ? ZS_CPU_AMD : ZS_CPU_INTEL;
}

static bool
read_element (Reader *reader, int parent, int *ret_device, GError **error)
{
  const char *name = zs_xml_name (reader->xml);
  Device device = { .kind = DEVICE_OTHER, .parent = parent, .leaf = true, .dev = -1, .numa = -1,
                    .line = zs_xml_line (reader->xml), .part = -1 };
  int64_t value, more;

  *ret_device = parent;
  if (g_str_equal (name, "system")) {
    if (!number (reader, "version", -1, &value, error))
      return false;
    if (value != 1)
      return fail (reader, error, "a topology of version 1 is expected; this one says %s",
                   value < 0 ? "none" : zs_xml_attribute (reader->xml, "version"));
    reader->seen_system = true;
    return true;
  }
  if (!reader->seen_system)
    return fail (reader, error, "<system> is expected, not <%s>", name);
  if (g_str_equal (name, "cpu")) {
    int64_t numa, family, model;

    if (!number (reader, "numaid", -1, &numa, error) || !number (reader, "familyid", 0, &family, error)
        || !number (reader, "modelid", 0, &model, error))
      return false;
    device.kind = DEVICE_CPU;
    device.parent = -1;
    device.numa = (int) numa;
    device.family = (int) family;
    device.model = (int) model;
    device.vendor = vendor_of (zs_xml_attribute (reader->xml, "arch"), zs_xml_attribute (reader->xml, "vendor"));
    if (zs_xml_attribute (reader->xml, "vendor") == NULL && zs_xml_attribute (reader->xml, "arch") == NULL)
      device.family = 0;   /* not said: the scenario's host says */
  }
  else if (g_str_equal (name, "pci")) {
    const char *bus = zs_xml_attribute (reader->xml, "busid"), *class = zs_xml_attribute (reader->xml, "class");

    if (bus == NULL || *bus == '\0')
      return fail (reader, error, "<pci> without busid");
    if (parent < 0)
      return fail (reader, error, "<pci> outside a <cpu>");
    g_strlcpy (device.bus, bus, sizeof device.bus);
    device.kind = kind_of (class);
    device.no_class = class == NULL;
    device.generation = generation_of (zs_xml_attribute (reader->xml, "link_speed"));
    if (!number (reader, "link_width", 0, &value, error))
      return false;
    device.width = (int) CLAMP (value, 0, 32);
    for (guint i = 0; i < reader->devices->len; i++)
      if (g_ascii_strcasecmp (device_at (reader, (int) i)->bus, bus) == 0)
        return fail (reader, error, "bus id %s a second time", bus);
  }
  else if (g_str_equal (name, "gpu") && parent >= 0) {
    Device *gpu = device_at (reader, parent);

    if (!number (reader, "sm", 0, &value, error) || !number (reader, "dev", -1, &more, error))
      return false;
    gpu->kind = DEVICE_GPU;
    gpu->has_gpu = true;
    gpu->sm = (int) value;
    gpu->dev = (int) more;
    gpu->has_rank = zs_xml_attribute (reader->xml, "rank") != NULL;
    return true;
  }
  else if (g_str_equal (name, "nvlink") && parent >= 0) {
    Nvlink link = { .gpu = parent };
    const char *target = zs_xml_attribute (reader->xml, "target"), *class = zs_xml_attribute (reader->xml, "tclass");

    if (target == NULL || !number (reader, "count", 1, &value, error))
      return target != NULL ? false : fail (reader, error, "<nvlink> without target");
    g_strlcpy (link.target, target, sizeof link.target);
    g_strlcpy (link.tclass, class != NULL ? class : "", sizeof link.tclass);
    link.count = (int) CLAMP (value, 0, 64);
    g_array_append_val (reader->nvlinks, link);
    return true;
  }
  else if (g_str_equal (name, "c2c") && parent >= 0) {
    if (!number (reader, "bw", 0, &value, error) || !number (reader, "count", 1, &more, error))
      return false;
    device_at (reader, parent)->c2c = value * more;
    return true;
  }
  else if (g_str_equal (name, "nic")) {
    if (parent < 0)
      return fail (reader, error, "<nic> outside a <cpu>");
    if (device_at (reader, parent)->kind != DEVICE_CPU) {
      device_at (reader, parent)->kind = DEVICE_NIC;
      return true;
    }
    device.kind = DEVICE_NIC;
  }
  else if (g_str_equal (name, "net") && parent >= 0) {
    Device *nic = device_at (reader, parent);
    const char *label = zs_xml_attribute (reader->xml, "name");

    if (!number (reader, "speed", 0, &value, error) || !number (reader, "gdr", 0, &more, error))
      return false;
    if (nic->kind != DEVICE_NIC || zs_xml_attribute (reader->xml, "dev") == NULL)
      return true;   /* NCCL passes over a net without dev */
    nic->speed += value > 0 ? value : 10000;
    nic->gdr |= more != 0;
    if (label != NULL)
      g_strlcpy (nic->name, label, sizeof nic->name);
    return true;
  }
  else {
    *ret_device = -2;   /* unknown: passed over with what is inside */
    return true;
  }
  if (device.parent >= 0)
    device_at (reader, device.parent)->leaf = false;
  g_array_append_val (reader->devices, device);
  *ret_device = (int) reader->devices->len - 1;
  return true;
}

static bool
read_all (Reader *reader, GError **error)
{
  for (;;) {
    ZsXmlEvent event = zs_xml_next (reader->xml, error);

    if (event == ZS_XML_ERROR)
      return false;
    if (event == ZS_XML_DONE)
      return true;
    if (event == ZS_XML_END) {
      reader->depth--;
      continue;
    }
    int parent = reader->depth > 0 ? reader->stack[reader->depth - 1] : -1, device = -2;

    if (parent != -2 && !read_element (reader, parent, &device, error))
      return false;
    reader->stack[reader->depth++] = device;
  }
}

static int
compare_gpus (gconstpointer x, gconstpointer y, gpointer data)
{
  const Device *a = device_at (data, *(const int *) x), *b = device_at (data, *(const int *) y);

  if (a->dev >= 0 && b->dev >= 0 && a->dev != b->dev)
    return a->dev - b->dev;
  return g_ascii_strcasecmp (a->bus, b->bus);
}

/* Which devices are GPUs, in the order of their numbers. */
static GArray *
find_gpus (Reader *reader, ZsTopology *topology, const ZsTopologyOptions *options)
{
  GArray *gpus = g_array_new (FALSE, FALSE, sizeof (int));
  int n_guessed = 0;

  for (int i = 0; i < (int) reader->devices->len; i++) {
    Device *device = device_at (reader, i);

    if (device->kind == DEVICE_OTHER && device->no_class && device->leaf
        && (options->n_gpus == 0 || n_guessed < options->n_gpus)) {
      device->kind = DEVICE_GPU;
      n_guessed++;
    }
    if (device->kind == DEVICE_OTHER && !device->leaf)
      device->kind = DEVICE_SWITCH;
    if (device->kind == DEVICE_GPU && device->has_gpu && !device->has_rank) {
      zs_topology_warn (topology, "line %d: GPU %s has no rank, so NCCL leaves it out", device->line, device->bus);
      device->kind = DEVICE_OTHER;
    }
    if (device->kind == DEVICE_GPU)
      g_array_append_val (gpus, i);
  }
  if (n_guessed > 0)
    zs_topology_warn (topology, "%d devices without a class were taken as GPUs", n_guessed);
  g_array_sort_with_data (gpus, compare_gpus, reader);
  return gpus;
}

static void
add_parts (Reader *reader, ZsTopology *topology, const GArray *gpus, const ZsTopologyOptions *options)
{
  int n_cpus = 0, n_switches = 0, n_nics = 0, n_unknown = 0;
  const ZsGpu *gpu = options->gpu != NULL ? options->gpu : options->gpus != NULL ? options->gpus[0] : NULL;
  int likely = gpu != NULL && gpu->pcie_generation > 0 ? gpu->pcie_generation : 4;

  for (int i = 0; i < (int) reader->devices->len; i++) {
    Device *device = device_at (reader, i);
    Device *parent = device->parent >= 0 ? device_at (reader, device->parent) : NULL;
    char name[24];

    switch (device->kind) {
    case DEVICE_CPU:
      g_snprintf (name, sizeof name, "NUMA %d", device->numa >= 0 ? device->numa : n_cpus);
      device->part = zs_topology_add_part (topology, ZS_PART_CPU, n_cpus++, name);
      topology->parts[device->part].vendor = device->vendor;
      topology->parts[device->part].family = device->family;
      topology->parts[device->part].model = device->model;
      break;
    case DEVICE_SWITCH:
      g_snprintf (name, sizeof name, "switch %d", n_switches);
      device->part = zs_topology_add_part (topology, ZS_PART_PCIE_SWITCH, n_switches++, name);
      break;
    case DEVICE_NIC:
      g_snprintf (name, sizeof name, "NIC%d", n_nics);
      device->part = zs_topology_add_part (topology, ZS_PART_NIC, n_nics++, device->name[0] != '\0' ? device->name : name);
      topology->parts[device->part].nic_rate = device->speed * 125000;
      topology->parts[device->part].gpu_direct = device->gdr;
      break;
    case DEVICE_GPU: {
      int g = 0;

      while (g < (int) gpus->len && g_array_index (gpus, int, g) != i)
        g++;
      if (g == (int) gpus->len)
        continue;
      g_snprintf (name, sizeof name, "GPU%d", g);
      device->part = zs_topology_add_part (topology, ZS_PART_GPU, g, name);
      zs_topology_set_gpu (topology, device->part, g, options);
      if (device->sm > 0)
        topology->parts[device->part].compute_capability = device->sm;
      break;
    }
    case DEVICE_OTHER:
      continue;
    }
    if (parent == NULL || parent->part < 0)
      continue;
    int first = topology->n_links;

    if (device->kind == DEVICE_GPU && device->c2c > 0)
      zs_topology_join (topology, parent->part, device->part, ZS_LINK_C2C, 1, 0, 0);
    else
      zs_topology_join (topology, parent->part, device->part, ZS_LINK_PCIE, device->width > 0 ? MIN (device->width, 16) : 16,
                        device->generation, 0);
    if (device->kind == DEVICE_NIC && device->bus[0] == '\0') {
      /* straight on the CPU: no PCIe limit for NCCL (LOC_BW) */
      topology->links[first].nccl_rate = topology->links[first + 1].nccl_rate = INT64_C (5000000000000);
      topology->links[first].rate = topology->links[first + 1].rate = zs_pcie_rate (likely, 16, true);
    }
    else if (device->generation == 0 && topology->links[first].kind == ZS_LINK_PCIE) {
      /* NCCL takes gen 3 for an empty speed; the machine has what its GPU has */
      for (int l = first; l < first + 2; l++)
        topology->links[l].rate = zs_pcie_rate (likely, topology->links[l].count, l > first);
      topology->links[first].generation = topology->links[first + 1].generation = likely;
      n_unknown++;
    }
  }
  if (n_unknown > 0)
    zs_topology_warn (topology, "%d PCIe links without a speed: NCCL takes gen 3, gen %d is simulated", n_unknown, likely);
}

static void
add_nvlinks (Reader *reader, ZsTopology *topology, const ZsTopologyOptions *options)
{
  int nvs = -1, n = 0;

  for (guint k = 0; k < reader->nvlinks->len; k++) {
    const Nvlink *link = &g_array_index (reader->nvlinks, Nvlink, k);
    const Device *from = device_at (reader, link->gpu);
    int to = -1;

    if (from->part < 0 || link->count == 0)
      continue;
    for (int i = 0; i < (int) reader->devices->len; i++)
      if (g_ascii_strcasecmp (device_at (reader, i)->bus, link->target) == 0 && device_at (reader, i)->kind == DEVICE_GPU)
        to = device_at (reader, i)->part;
    if (to == from->part) {
      zs_topology_warn (topology, "an NVLink of %s to itself was passed over", topology->parts[from->part].name);
      continue;
    }
    if (to < 0 && !g_str_has_prefix (link->tclass, "0x0680")) {
      zs_topology_warn (topology, "an NVLink of %s to %s, which is not in the file, was passed over",
                        topology->parts[from->part].name, link->target);
      continue;
    }
    n++;
    if (to < 0) {
      if (nvs < 0)
        nvs = zs_topology_add_part (topology, ZS_PART_NVSWITCH, 0, "NVSwitch");
      to = nvs;
    }
    /* each end names the link; several NVSwitches are one */
    bool merged = false;

    for (int l = 0; l < topology->n_links; l++) {
      ZsLink *old = &topology->links[l];

      if (old->kind != ZS_LINK_NVLINK || old->from != from->part || old->to != to)
        continue;
      merged = true;
      if (to == nvs)
        for (int half = 0; half < 2; half++) {
          ZsLink *one = half == 0 ? old : &topology->links[old->reverse];
          int capability = topology->parts[from->part].compute_capability;

          one->count += link->count;
          one->rate = zs_nvlink_rate (capability, one->count);
          one->nccl_rate = zs_nvlink_nccl_rate (capability, one->count, ZS_VERSION (2, 30, 7));
        }
    }
    if (!merged)
      zs_topology_join (topology, from->part, to, ZS_LINK_NVLINK, link->count, 0,
                        topology->parts[from->part].compute_capability);
  }
  if (n > 0)
    return;
  g_autoptr (GArray) parts = g_array_new (FALSE, FALSE, sizeof (int));

  for (int g = 0; g < topology->n_parts; g++)
    for (int i = 0; i < topology->n_parts; i++)
      if (topology->parts[i].kind == ZS_PART_GPU && topology->parts[i].index == g)
        g_array_append_val (parts, i);
  if (zs_topology_wire_as_usual (topology, (int *) (void *) parts->data, (int) parts->len, options))
    zs_topology_warn (topology, "the file names no NVLink: those that this GPU usually has are assumed");
}

ZsTopology *
zs_topology_from_nccl_xml (const char *file, const char *text, gssize length, const ZsTopologyOptions *options,
                           GError **error)
{
  Reader reader = { .file = file };
  g_autoptr (ZsTopology) topology = zs_topology_new ("NCCL topology file");
  g_autoptr (ZsXml) xml = zs_xml_new (file, text, length < 0 ? strlen (text) : (gsize) length);
  g_autoptr (GArray) devices = g_array_new (FALSE, TRUE, sizeof (Device));
  g_autoptr (GArray) nvlinks = g_array_new (FALSE, TRUE, sizeof (Nvlink));

  reader.xml = xml;
  reader.devices = devices;
  reader.nvlinks = nvlinks;
  if (!read_all (&reader, error))
    return NULL;
  g_autoptr (GArray) gpus = find_gpus (&reader, topology, options);

  if (gpus->len == 0 || gpus->len > 64) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "%s:1:1: %s", file,
                 gpus->len == 0 ? "no GPU in this topology" : "more than 64 GPUs in one node");
    return NULL;
  }
  if (options->n_gpus > (int) gpus->len) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "%s:1:1: %u GPUs, fewer than the %d that a node should have", file,
                 gpus->len, options->n_gpus);
    return NULL;
  }
  if (options->n_gpus > 0 && options->n_gpus < (int) gpus->len) {
    zs_topology_warn (topology, "the file shows %u GPUs: the first %d are used", gpus->len, options->n_gpus);
    g_array_set_size (gpus, (guint) options->n_gpus);
  }
  if (devices->len > 512) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "%s:1:1: more than 512 devices", file);
    return NULL;
  }
  add_parts (&reader, topology, gpus, options);
  add_nvlinks (&reader, topology, options);
  zs_topology_finish (topology, options);
  return g_steal_pointer (&topology);
}
