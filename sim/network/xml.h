/* xml.h: a small reader of XML elements and attributes, for topology files.
 * SPDX-License-Identifier: MIT
 *
 * Elements, attributes in either quotes, comments, the five named entities, a declaration.  Text between
 * elements is passed over; document types and other entities are refused.  Depth, attributes and
 * lengths are limited, so no input can exhaust anything. */
#pragma once

#include <glib.h>

typedef struct ZsXml ZsXml;
typedef enum { ZS_XML_START, ZS_XML_END, ZS_XML_DONE, ZS_XML_ERROR } ZsXmlEvent;

/* TEXT and FILE (for messages) must outlive it. */
ZsXml      *zs_xml_new  (const char *file, const char *text, gsize length) G_GNUC_WARN_UNUSED_RESULT;
void        zs_xml_free (ZsXml *xml);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsXml, zs_xml_free)

/* An element that closes itself gives a START and an END.  DONE after the root has ended; ERROR with
 * "file:line:column: ..." for anything else. */
ZsXmlEvent  zs_xml_next (ZsXml *xml, GError **error);
/* Of the element just started or ended; valid until the next call. */
const char *zs_xml_name (const ZsXml *xml);
/* Of the element just started; NULL: not there. */
const char *zs_xml_attribute (const ZsXml *xml, const char *name);
int         zs_xml_line (const ZsXml *xml);
