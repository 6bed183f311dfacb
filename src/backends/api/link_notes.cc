#include "backends/api/link_notes.h"

#include "backends/api/names.h"
#include "base/utf8.h"
#include "model/base64.h"
#include "model/json.h"

namespace codecfs {
namespace {

constexpr const char* kIsBase64 = "is_base64";
constexpr const char* kEscaped = "escaped";

Json note_of(const char* key, std::vector<std::string> texts) {
  bool is_utf8_all = true;
  for (const std::string& text : texts) is_utf8_all = is_utf8_all && is_utf8(text);
  if (!is_utf8_all)
    for (std::string& text : texts) text = encode_base64(std::as_bytes(std::span(text)));
  Json note = {{key, texts.size() == 1 ? Json(texts[0]) : Json(texts)}};
  if (!is_utf8_all) note[kIsBase64] = true;
  return note;
}

}  // namespace

std::optional<Attribute> stored_links(std::span<const Attribute> notes) {
  if (notes.empty()) return std::nullopt;
  Json links = Json::object();
  for (const Attribute& note : notes) append_member(links, note.name, *note.value);
  return Attribute{kStoredLinks, Json(print_json(links))};
}

Json parse_stored_links(const Json& value) {
  if (!value.is_string()) return Json::object();
  const Result<Json> links = parse_json(value.get_ref<const std::string&>());
  return links && links->is_object() ? *links : Json::object();
}

Json soft_link_note(const std::string& path) { return note_of("soft", {path}); }

Json external_link_note(const std::string& file, const std::string& path) { return note_of("external", {file, path}); }

void note_escape(Json& note, const std::string& file_name) {
  const auto name = unescape_name(file_name);
  if (name && *name != file_name) note[kEscaped] = true;
}

bool is_escape_noted(const Json& note) { return member(note, kEscaped) == Json(true); }

Json escape_note() { return {{kEscaped, true}}; }

bool is_of_link(const Json& note) { return note != escape_note() && !note.contains(kNotedType); }

std::vector<std::string> texts_of_note(const Json& note, const char* key) {
  const Json found = member(note, key);
  std::vector<std::string> texts;
  if (found.is_string()) texts.push_back(found.get<std::string>());
  if (found.is_array())
    for (const Json& item : found) {
      if (!item.is_string()) return {};
      texts.push_back(item.get<std::string>());
    }
  const bool is_base64 = member(note, kIsBase64) == Json(true);
  for (std::string& text : texts) {
    if (is_base64) {
      const auto bytes = decode_base64(text);
      if (!bytes) return {};
      text.assign(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    }
    if (text.find('\0') != text.npos) return {};  // no path of HDF5 has one
  }
  return texts;
}

}  // namespace codecfs
