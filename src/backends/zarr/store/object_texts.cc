#include "backends/zarr/store/object_texts.h"

#include <algorithm>
#include <array>

#include "backends/zarr/metadata/zarr3_metadata.h"
#include "backends/zarr/source/hierarchy.h"
#include "base/log.h"
#include "model/json.h"
#include "remote/parallel_requests.h"

namespace codecfs::zarr {
namespace {

constexpr size_t kAtOnce = 32;  // requests

/// Whether a path of consolidated metadata stays in the store.
bool is_key(std::string_view path) {
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, end - at);
    if (part.empty() || part == "." || part == ".." || part.contains('\0')) return false;
    at = end + 1;
  }
  return true;
}

}  // namespace

bool is_metadata_key(std::string_view key) {
  const std::string_view name = key.substr(key.rfind('/') + 1);
  return name.starts_with(".z") || name.starts_with(".ncz") || name == kZarr3File;
}

Result<std::optional<std::string>> ObjectTexts::read(const std::string& key) {
  CODECFS_ASSIGN(const auto part, client_->get(client_->key_of(prefix_, key), {}, kMaxMetadataBytes));
  if (!part) return std::nullopt;
  return std::string(reinterpret_cast<const char*>(part->bytes.data()), part->bytes.size());
}

Result<> ObjectTexts::open() {
  CODECFS_ASSIGN(auto root, read(kZarr3File));
  if (root) {
    is_v3_ = true;
    CODECFS_ASSIGN(is_consolidated_, take_v3(*root));
    read_.put(kZarr3File, std::make_shared<const std::optional<std::string>>(std::move(root)));
    return {};
  }
  CODECFS_ASSIGN(const auto consolidated, read(kConsolidatedFile));
  is_v2_ = true;
  if (consolidated) return take_v2(*consolidated);
  prepare({kGroupFile, kArrayFile, kAttributesFile, ".nczgroup", ".nczarr"});
  return {};
}

/// {"metadata": {"a/.zarray": {...}, ...}, "zarr_consolidated_format": 1}
Result<> ObjectTexts::take_v2(const std::string& text) {
  auto json = parse_json(text, kMaxMetadataBytes);
  if (!json) return fail(EIO, "{}: {}", kConsolidatedFile, json.error().reason);
  const Json format = json->is_object() ? json->value("zarr_consolidated_format", Json()) : Json();
  const auto files = json->is_object() ? json->find("metadata") : json->end();
  if (format != 1 || files == json->end() || !files->is_object()) {
    log::warning("{}: has an unknown form and is not used", kConsolidatedFile);
    return {};
  }
  for (const auto& [key, value] : files->items())
    if (is_key(key)) all_.emplace(key, print_json(value));
  is_consolidated_ = true;
  return {};
}

/// zarr.json of the root with {"consolidated_metadata": {"kind": "inline", "metadata": {"a": {...}, ...}}}. Whether it
/// has that.
Result<bool> ObjectTexts::take_v3(const std::string& text) {
  auto json = parse_json(text, kMaxMetadataBytes);
  if (!json) return fail(EIO, "{}: {}", kZarr3File, json.error().reason);
  const Json consolidated = json->is_object() ? json->value("consolidated_metadata", Json()) : Json();
  if (!consolidated.is_object()) return false;
  const auto nodes = consolidated.find("metadata");
  if (consolidated.value("kind", Json()) != "inline" || nodes == consolidated.end() || !nodes->is_object()) {
    log::warning("{}: its consolidated metadata has an unknown form and is not used", kZarr3File);
    return false;
  }
  for (const auto& [path, node] : nodes->items())
    if (is_key(path)) all_.emplace(join_key(path, kZarr3File), print_json(node));
  all_.emplace(kZarr3File, text);
  return true;
}

Result<ObjectTexts::Text> ObjectTexts::get(const std::string& key) {
  static const Text kNone = std::make_shared<const std::optional<std::string>>();
  if (is_consolidated_) {
    const auto found = all_.find(key);
    return found == all_.end() ? kNone : std::make_shared<const std::optional<std::string>>(found->second);
  }
  const bool is_of_v3 = name_of(key) == kZarr3File;
  if ((is_v3_ && !is_of_v3) || (is_v2_ && is_of_v3)) return kNone;
  if (Text known = read_.get(key)) return known;
  CODECFS_ASSIGN(auto text, read(key));
  const uint64_t weight = key.size() + (text ? text->size() : 0);
  auto made = std::make_shared<const std::optional<std::string>>(std::move(text));
  read_.put(key, made, weight);
  return made;
}

void ObjectTexts::prepare(const std::vector<std::string>& keys) {
  if (is_consolidated_ || keys.empty()) return;
  remote::run_in_parallel(keys.size(), kAtOnce, [&](size_t i) { (void)get(keys[i]); });
}

Result<bool> ObjectTexts::is_array(const std::string& key) {
  if (const auto known = arrays_.get(key)) return *known;
  CODECFS_ASSIGN(const Text text, get(join_key(key, is_v3_ ? kZarr3File : kArrayFile)));
  bool is_array = text->has_value();
  if (is_array && is_v3_) {
    CODECFS_ASSIGN(const EntryKind kind, zarr3_node_type(**text));
    is_array = kind == EntryKind::variable;
  }
  arrays_.put(key, std::make_shared<const bool>(is_array));
  return is_array;
}

Result<bool> ObjectTexts::is_in_array(const std::string& key) {
  // From the root, so that no request is made for what is below an array.
  for (size_t end = 0; end != key.npos && end < key.size(); end = key.find('/', end + 1)) {
    CODECFS_ASSIGN(const bool is_above, is_array(key.substr(0, end)));
    if (is_above) return true;
  }
  return false;
}

Result<bool> ObjectTexts::is_node(const std::string& key) {
  for (const char* const file : {kZarr3File, kArrayFile, kGroupFile, ".nczgroup"}) {
    CODECFS_ASSIGN(const Text text, get(join_key(key, file)));
    if (*text) return true;
  }
  return key.empty();
}

std::optional<std::set<std::string>> ObjectTexts::members(const std::string& group) const {
  if (!is_consolidated_) return std::nullopt;
  std::set<std::string> names;
  const std::string prefix = group.empty() ? "" : group + "/";
  for (auto at = all_.lower_bound(prefix); at != all_.end() && at->first.starts_with(prefix); ++at) {
    const std::string_view rest = std::string_view(at->first).substr(prefix.size());
    if (const size_t slash = rest.find('/'); slash != rest.npos) names.emplace(rest.substr(0, slash));
  }
  return names;
}

}  // namespace codecfs::zarr
