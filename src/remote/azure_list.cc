#include "remote/azure_list.h"

#include <curl/curl.h>

#include <charconv>
#include <string>

#include "remote/xml.h"

namespace codecfs::remote {
namespace {

constexpr size_t kMaxBlobName = 4096;  // bytes; 1,024 characters

Result<ListedObject> object_of(const XmlElement& blob) {
  ListedObject object{.key = std::string(blob.child_text("Name")), .size = 0, .etag = {}, .modified = 0};
  const XmlElement* const properties = blob.child("Properties");
  if (!properties) return fail(EIO, "the list of objects has one without properties");
  const std::string_view size = properties->child_text("Content-Length");
  const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), object.size);
  if (error != std::errc() || end != size.data() + size.size())
    return fail(EIO, "the list of objects: \"{}\" is no size", size.substr(0, 40));
  // Lists write ETags without the quotes that headers have.
  object.etag = properties->child_text("Etag");
  if (!object.etag.empty() && !object.etag.starts_with('"')) object.etag = "\"" + object.etag + "\"";
  const std::string modified(properties->child_text("Last-Modified"));
  if (const time_t time = ::curl_getdate(modified.c_str(), nullptr); time > 0) object.modified = time;
  return object;
}

bool is_blob_directory(const XmlElement& blob) {
  const XmlElement* const properties = blob.child("Properties");
  if (properties && properties->child_text("ResourceType") == "directory") return true;
  const XmlElement* const metadata = blob.child("Metadata");
  return metadata && metadata->child_text("hdi_isfolder") == "true";
}

}  // namespace

Result<ObjectList> parse_azure_list(std::string_view xml, std::string_view prefix) {
  const auto root = parse_xml(xml);
  if (!root) return fail(EIO, "the list of objects: {}", root.error().reason);
  const XmlElement* const blobs = root->name == "EnumerationResults" ? root->child("Blobs") : nullptr;
  if (!blobs) return fail(EIO, "the list of objects is a {}", root->name.substr(0, 40));
  ObjectList list;
  for (const XmlElement& child : blobs->children) {
    const std::string_view name = child.child_text("Name");
    if (child.name != "Blob" && child.name != "BlobPrefix") continue;
    if (!name.starts_with(prefix)) return fail(EIO, "the list of objects has others than were asked for");
    if (name.size() > kMaxBlobName) return fail(EIO, "the list of objects has a key of {} bytes", name.size());
    if (child.name == "BlobPrefix") {
      list.prefixes.emplace_back(name);
    } else if (!is_blob_directory(child)) {
      CODECFS_ASSIGN(ListedObject object, object_of(child));
      list.objects.push_back(std::move(object));
    }
  }
  list.next = root->child_text("NextMarker");
  return list;
}

}  // namespace codecfs::remote
