/* Reads one codec's JSON, such as {"id": "zlib", "level": 5}, in place and without allocating memory.
 *
 * The whole text is validated (RFC 8259, nesting to 64 levels) before any value is taken from it; any input is safe.
 * Other members than the requested ones are allowed. If a key is repeated, the last one counts, as in Python. */
#ifndef CODECFS_PLUGINS_CODEC_JSON_H
#define CODECFS_PLUGINS_CODEC_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include "codecfs/nczarr_codec.h"

/* Whether this is one JSON object whose "id" is that codec's. */
bool codec_json_is(const char* text, const char* codecid);

/* The functions below require a text that codec_json_is has accepted. */

/* An integer member, written as an integer, as a float (truncated), as a string of either, or as a boolean: all of
 * them occur in stores. A missing member leaves *value as it is. False: not such a value, or out of [low, high]. */
bool codec_json_integer(const char* text, const char* key, long long low, long long high, long long* value);

/* Whether there is such a member. */
bool codec_json_has(const char* text, const char* key);

enum { CODEC_JSON_STRING = 64 };

/* A string member, at most CODEC_JSON_STRING - 1 characters, ASCII. A missing member leaves value as it is. */
bool codec_json_string(const char* text, const char* key, char value[CODEC_JSON_STRING]);

/* Copies of parameters and of printed JSON in the form that the codec API returns: NC_NOERR or NC_ENOMEM. */
int codec_give_parameters(size_t count, const unsigned* values, size_t* nparamsp, unsigned** paramsp);
int codec_give_json(char** codecp, const char* format, ...) __attribute__((format(printf, 2, 3)));

#endif
