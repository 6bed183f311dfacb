/* A JSON reader for codecs: scans the text and returns the position of the requested value. */
#include "codec_json.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 64 };

/* Each skip_ function scans one item at `at` and returns its end, or NULL if it is malformed. */
static const char* skip_value(const char* at, int depth);

static const char* skip_space(const char* at) {
  while (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r') ++at;
  return at;
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

static const char* skip_string(const char* at) {
  if (*at++ != '"') return NULL;
  for (; *at != '"'; ++at) {
    if ((unsigned char)*at < 0x20) return NULL; /* also the end of the text */
    if (*at != '\\') continue;
    ++at;
    if (*at == 'u') {
      for (int i = 0; i < 4; ++i)
        if (hex_digit(*++at) < 0) return NULL;
    } else if (*at == '\0' || !strchr("\"\\/bfnrt", *at)) {
      return NULL;
    }
  }
  return at + 1;
}

static const char* skip_digits(const char* at) {
  if (*at < '0' || *at > '9') return NULL;
  while (*at >= '0' && *at <= '9') ++at;
  return at;
}

static const char* skip_number(const char* at) {
  if (*at == '-') ++at;
  const char* digits = at;
  at = skip_digits(at);
  if (!at || (*digits == '0' && at - digits > 1)) return NULL;
  if (*at == '.' && !(at = skip_digits(at + 1))) return NULL;
  if (*at == 'e' || *at == 'E') {
    ++at;
    if (*at == '+' || *at == '-') ++at;
    at = skip_digits(at);
  }
  return at;
}

static const char* skip_word(const char* at, const char* word) {
  const size_t size = strlen(word);
  return strncmp(at, word, size) == 0 ? at + size : NULL;
}

/* The key of a member and the colon after it: the start of the member's value. */
static const char* skip_key(const char* at) {
  at = skip_string(at);
  if (!at) return NULL;
  at = skip_space(at);
  return *at == ':' ? skip_space(at + 1) : NULL;
}

static const char* skip_container(const char* at, char close, int depth) {
  if (depth >= DEEPEST) return NULL;
  at = skip_space(at + 1);
  if (*at == close) return at + 1;
  for (;;) {
    if (close == '}' && !(at = skip_key(at))) return NULL;
    at = skip_value(at, depth + 1);
    if (!at) return NULL;
    at = skip_space(at);
    if (*at == close) return at + 1;
    if (*at != ',') return NULL;
    at = skip_space(at + 1);
  }
}

static const char* skip_value(const char* at, int depth) {
  switch (*at) {
    case '{': return skip_container(at, '}', depth);
    case '[': return skip_container(at, ']', depth);
    case '"': return skip_string(at);
    case 't': return skip_word(at, "true");
    case 'f': return skip_word(at, "false");
    case 'n': return skip_word(at, "null");
    default: return skip_number(at);
  }
}

/* The characters of a valid JSON string, if they are ASCII and fit. */
static bool read_string(const char* at, char value[CODEC_JSON_STRING]) {
  size_t size = 0;
  for (++at; *at != '"'; ++at) {
    unsigned c = (unsigned char)*at;
    if (c == '\\') {
      switch (*++at) {
        case 'b': c = '\b'; break;
        case 'f': c = '\f'; break;
        case 'n': c = '\n'; break;
        case 'r': c = '\r'; break;
        case 't': c = '\t'; break;
        case 'u':
          c = 0;
          for (int i = 0; i < 4; ++i) c = c * 16 + (unsigned)hex_digit(*++at);
          break;
        default: c = (unsigned char)*at;
      }
    }
    if (c == 0 || c > 0x7e || size + 1 >= CODEC_JSON_STRING) return false;
    value[size++] = (char)c;
  }
  value[size] = '\0';
  return true;
}

/* The value of a member of a valid object, or NULL. */
static const char* find(const char* text, const char* key) {
  const char* found = NULL;
  const char* at = skip_space(skip_space(text) + 1);
  while (*at != '}') {
    char name[CODEC_JSON_STRING];
    const bool wanted = read_string(at, name) && strcmp(name, key) == 0;
    at = skip_key(at);
    if (wanted) found = at;
    at = skip_space(skip_value(at, 1));
    if (*at == ',') at = skip_space(at + 1);
  }
  return found;
}

bool codec_json_is(const char* text, const char* codecid) {
  if (!text) return false;
  const char* begin = skip_space(text);
  if (*begin != '{') return false;
  const char* end = skip_value(begin, 0);
  if (!end || *skip_space(end) != '\0') return false;
  char id[CODEC_JSON_STRING] = "";
  return codec_json_string(text, "id", id) && strcmp(id, codecid) == 0;
}

bool codec_json_has(const char* text, const char* key) { return find(text, key) != NULL; }

bool codec_json_string(const char* text, const char* key, char value[CODEC_JSON_STRING]) {
  const char* at = find(text, key);
  if (!at) return true;
  char read[CODEC_JSON_STRING];
  if (*at != '"' || !read_string(at, read)) return false;
  memcpy(value, read, sizeof read);
  return true;
}

/* Parses a JSON number. strtod is not used for the digits, because it expects the locale's decimal point. */
static bool read_integer(const char* at, double* number) {
  const bool negative = *at == '-';
  if (negative) ++at;
  double value = 0, scale = 1;
  for (; *at >= '0' && *at <= '9'; ++at) value = value * 10 + (*at - '0');
  if (*at == '.')
    for (++at; *at >= '0' && *at <= '9'; ++at) value += (*at - '0') * (scale /= 10);
  if (*at == 'e' || *at == 'E') {
    ++at;
    const bool down = *at == '-';
    if (*at == '+' || *at == '-') ++at;
    int exponent = 0;
    for (; *at >= '0' && *at <= '9'; ++at)
      if (exponent < 1000) exponent = exponent * 10 + (*at - '0');
    value *= pow(10, down ? -exponent : exponent);
  }
  *number = trunc(negative ? -value : value);
  return isfinite(*number);
}

bool codec_json_integer(const char* text, const char* key, long long low, long long high, long long* value) {
  const char* at = find(text, key);
  if (!at) return true;
  double number = 0;
  char string[CODEC_JSON_STRING];
  if (*at == 't' || *at == 'f') {
    number = *at == 't';
  } else if (*at == '"') {
    if (!read_string(at, string)) return false;
    const char* end = skip_number(string);
    if (!end || *end != '\0' || !read_integer(string, &number)) return false;
  } else if (*at == '-' || (*at >= '0' && *at <= '9')) {
    if (!read_integer(at, &number)) return false;
  } else {
    return false;
  }
  if (number < (double)low || number > (double)high) return false;
  *value = (long long)number;
  return true;
}

int codec_give_parameters(size_t count, const unsigned* values, size_t* nparamsp, unsigned** paramsp) {
  unsigned* copy = NULL;
  if (count > 0) {
    copy = malloc(count * sizeof *copy);
    if (!copy) return NC_ENOMEM;
    memcpy(copy, values, count * sizeof *copy);
  }
  *nparamsp = count;
  *paramsp = copy;
  return NC_NOERR;
}

int codec_give_json(char** codecp, const char* format, ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  const int size = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (size < 0 || (size_t)size >= sizeof text) return NC_EINVAL;
  char* copy = malloc((size_t)size + 1);
  if (!copy) return NC_ENOMEM;
  memcpy(copy, text, (size_t)size + 1);
  *codecp = copy;
  return NC_NOERR;
}
