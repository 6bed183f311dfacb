/* Reading one codec's JSON, such as {"id": "zlib", "level": 5}, in place and without memory of its own.
 *
 * The text is checked as a whole (RFC 8259, nesting to 64 levels) before anything is taken from it; any text is safe.
 * Members other than the wanted ones are allowed. Of a repeated key the last one counts, as in Python. */
#ifndef CODECFS_PLUGINS_CODEC_JSON_H
#define CODECFS_PLUGINS_CODEC_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include "codecfs/nczarr_codec.h"

/* Is this one JSON object whose "id" is that codec's? */
bool codec_json_is(const char* text, const char* codecid);

/* The functions below expect a text that codec_json_is accepted. */

/* An integer member, written as an integer, as a float (truncated), as a string of either, or as a boolean: all of
 * them occur in stores. A missing member leaves *value as it is. False: not such a value, or out of [low, high]. */
bool codec_json_integer(const char* text, const char* key, long long low, long long high, long long* value);

/* Is there such a member? */
bool codec_json_has(const char* text, const char* key);

enum { CODEC_JSON_STRING = 64 };

/* A string member, at most CODEC_JSON_STRING - 1 characters, ASCII. A missing member leaves value as it is. */
bool codec_json_string(const char* text, const char* key, char value[CODEC_JSON_STRING]);

/* Copies of parameters and of printed JSON, as the codec API hands them out: NC_NOERR or NC_ENOMEM. */
int codec_give_parameters(size_t count, const unsigned* values, size_t* nparamsp, unsigned** paramsp);
int codec_give_json(char** codecp, const char* format, ...) __attribute__((format(printf, 2, 3)));

#endif
