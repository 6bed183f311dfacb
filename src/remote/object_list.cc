#include "remote/object_list.h"

#include <algorithm>
#include <charconv>
#include <ctime>

#include "remote/encodings.h"
#include "remote/xml.h"

namespace codecfs::remote {
namespace {

constexpr size_t kMaxMessage = 200;  // bytes
constexpr size_t kMaxKey = 1024;     // bytes

/// Decodes encoding-type=url, which encodes as in forms.
std::string url_decoded(std::string_view text) {
  std::string spaced(text);
  std::ranges::replace(spaced, '+', ' ');
  return percent_decoded(spaced);
}

/// "2009-10-12T17:50:30.000Z"; 0 if it is no time.
int64_t time_of(std::string_view text) {
  std::tm time{};
  return ::strptime(std::string(text).c_str(), "%Y-%m-%dT%H:%M:%S", &time) == nullptr ? 0 : ::timegm(&time);
}

}  // namespace

std::string with_generation(std::string_view etag, std::string_view generation) {
  std::string version(etag);
  if (!version.empty() && !version.starts_with('"')) version = "\"" + version + "\"";
  if (!generation.empty()) version.append("#").append(generation);
  return version;
}

Result<ObjectList> parse_object_list(std::string_view xml, std::string_view prefix, bool has_generations) {
  const auto root = parse_xml(xml);
  if (!root) return fail(EIO, "the list of objects: {}", root.error().reason);
  if (root->name != "ListBucketResult") return fail(EIO, "the list of objects is a {}", root->name.substr(0, 40));
  const bool is_encoded = root->child_text("EncodingType") == "url";
  const auto key_of = [&](std::string_view text) { return is_encoded ? url_decoded(text) : std::string(text); };
  ObjectList list;
  for (const XmlElement& child : root->children) {
    if (child.name == "Contents") {
      ListedObject object;
      object.key = key_of(child.child_text("Key"));
      const std::string_view size = child.child_text("Size");
      const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), object.size);
      if (error != std::errc() || end != size.data() + size.size())
        return fail(EIO, "the list of objects: \"{}\" is no size", size.substr(0, 40));
      object.etag = child.child_text("ETag");
      if (has_generations) object.etag = with_generation(object.etag, child.child_text("Generation"));
      object.modified = time_of(child.child_text("LastModified"));
      if (!object.key.starts_with(prefix)) return fail(EIO, "the list of objects has others than were asked for");
      if (object.key.size() > kMaxKey) return fail(EIO, "the list of objects has a key of {} bytes", object.key.size());
      list.objects.push_back(std::move(object));
    } else if (child.name == "CommonPrefixes") {
      std::string key = key_of(child.child_text("Prefix"));
      if (!key.starts_with(prefix)) return fail(EIO, "the list of objects has others than were asked for");
      list.prefixes.push_back(std::move(key));
    }
  }
  if (root->child_text("IsTruncated") == "true") {
    list.next = root->child_text("NextContinuationToken");
    if (list.next.empty()) return fail(EIO, "the list of objects does not say how it goes on");
  }
  return list;
}

ObjectError parse_object_error(std::string_view xml) {
  const auto root = parse_xml(xml);
  if (!root || root->name != "Error") return {};
  ObjectError error;
  error.code = root->child_text("Code").substr(0, kMaxMessage);
  error.message = root->child_text("Message").substr(0, kMaxMessage);
  error.region = root->child_text("Region");
  for (std::string* const text : {&error.code, &error.message})
    std::ranges::replace_if(*text, [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  return error;
}

}  // namespace codecfs::remote
