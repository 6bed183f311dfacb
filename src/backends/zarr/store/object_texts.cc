#include "backends/zarr/store/object_texts.h"

#include <algorithm>
#include <array>

#include "backends/zarr/metadata/metadata_files.h"
#include "backends/zarr/metadata/zarr3_metadata.h"
#include "backends/zarr/store/store.h"
#include "base/log.h"
#include "base/parallel.h"
#include "model/json.h"

namespace codecfs::zarr {
namespace {

constexpr size_t kAtOnce = 32;  // requests

const ObjectTexts::Text& no_text() {
  static const ObjectTexts::Text kNone = std::make_shared<const std::optional<std::string>>();
  return kNone;
}

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

const char* ObjectTexts::consolidated_file() const { return is_v3_ ? kZarr3File : kConsolidatedFile; }

Result<ObjectTexts::Read> ObjectTexts::read(const std::string& key) {
  CODECFS_ASSIGN(const auto part, client_->get(client_->key_of(prefix_, key), {}, kMaxMetadataBytes));
  if (!part) return Read{};
  std::string text(reinterpret_cast<const char*>(part->bytes.data()), part->bytes.size());
  if (text.starts_with('<'))
    return fail(EIO, "{}: is a page of HTML and no JSON, perhaps that of a login or an error", key);
  client_->rely_on(client_->key_of(prefix_, key), *part);
  return Read{.text = std::move(text), .etag = part->etag};
}

Result<> ObjectTexts::open() {
  CODECFS_ASSIGN(Read root, read(kZarr3File));
  (root.text ? is_v3_ : is_v2_) = true;
  CODECFS_ASSIGN(const Read consolidated, root.text ? Result<Read>(root) : read(kConsolidatedFile));
  if (consolidated.text) {
    CODECFS_ASSIGN(auto texts, parse_consolidated(*consolidated.text));
    if (texts) {
      const LockGuard lock(mutex_);
      all_ = std::move(*texts);
      is_consolidated_ = true;
      return {};
    }
  }
  if (is_v3_) {
    read_.put(kZarr3File, std::make_shared<const std::optional<std::string>>(std::move(root.text)));
  } else {
    prepare({kGroupFile, kArrayFile, kAttributesFile, ".nczgroup", ".nczarr"});
    // Some of them may have been found absent before the first one was found.
    CODECFS_TRY(client_->confirm_absences());
  }
  return {};
}

/// {"metadata": {"a/.zarray": {...}, ...}, "zarr_consolidated_format": 1}, or zarr.json of the root with
/// {"consolidated_metadata": {"kind": "inline", "metadata": {"a": {...}, ...}}}. None if it is not that.
Result<std::optional<ObjectTexts::Texts>> ObjectTexts::parse_consolidated(const std::string& text) const {
  const char* const file = consolidated_file();
  auto json = parse_json(text, kMaxMetadataBytes);
  if (!json) return fail(EIO, "{}: {}", file, json.error().reason);
  const Json consolidated = !is_v3_             ? std::move(*json)
                            : json->is_object() ? json->value("consolidated_metadata", Json())
                                                : Json();
  if (is_v3_ && !consolidated.is_object()) return std::nullopt;
  const bool is_known =
      consolidated.is_object() && (is_v3_ ? consolidated.value("kind", Json()) == "inline"
                                          : consolidated.value("zarr_consolidated_format", Json()) == 1);
  const auto files = is_known ? consolidated.find("metadata") : consolidated.end();
  if (!is_known || files == consolidated.end() || !files->is_object()) {
    log::warning("{}: its consolidated metadata has an unknown form and is not used", file);
    return std::nullopt;
  }
  Texts texts;
  for (const auto& [path, value] : files->items())
    if (is_key(path)) texts.emplace(is_v3_ ? join_key(path, kZarr3File) : path, print_json(value));
  texts.insert_or_assign(file, text);
  return texts;
}

/// What was read or written before; null if it must be read.
ObjectTexts::Text ObjectTexts::kept(const std::string& key) {
  if (Text text = read_.get(key)) return text;
  const auto absent = absent_.get(key);
  return absent && Clock::now() - *absent < kAbsentFor ? no_text() : nullptr;
}

void ObjectTexts::keep(const std::string& key, const Text& text) {
  if (*text) {
    read_.put(key, text, key.size() + (*text)->size());
  } else {
    read_.erase(key);
    absent_.put(key, std::make_shared<const Clock::time_point>(Clock::now()));
  }
}

Result<ObjectTexts::Text> ObjectTexts::get(const std::string& key) {
  {
    const SharedLock lock(mutex_);
    if (is_consolidated_) {
      const auto found = all_.find(key);
      return found == all_.end() ? no_text() : std::make_shared<const std::optional<std::string>>(found->second);
    }
  }
  const bool is_of_v3 = name_of(key) == kZarr3File;
  if ((is_v3_ && !is_of_v3) || (is_v2_ && is_of_v3)) return no_text();
  if (Text text = kept(key)) return text;
  CODECFS_ASSIGN(Read found, read(key));
  auto made = std::make_shared<const std::optional<std::string>>(std::move(found.text));
  const SharedLock lock(mutex_);
  // What was written meanwhile is newer.
  if (etags_.contains(key)) {
    if (Text text = kept(key)) return text;
  }
  keep(key, made);
  return made;
}

void ObjectTexts::prepare(const std::vector<std::string>& keys, Clock::time_point until) {
  {
    const SharedLock lock(mutex_);
    if (is_consolidated_ || keys.empty()) return;
  }
  (void)parallel_for(keys.size(), {.threads = kAtOnce}, [&](uint64_t i) -> Result<> {
    if (Clock::now() > until) return fail(ECANCELED, "there is no time for more");
    (void)get(keys[i]);
    return {};
  });
}

Result<bool> ObjectTexts::is_array(const std::string& key) {
  if (const auto known = arrays_.get(key)) return *known;
  CODECFS_ASSIGN(const Text text, get(join_key(key, is_v3_ ? kZarr3File : kArrayFile)));
  bool is_array = text->has_value();
  if (is_array && is_v3_) {
    CODECFS_ASSIGN(const EntryKind kind, zarr3_node_type(**text));
    is_array = kind == EntryKind::variable;
  }
  bool is_certain = text->has_value();
  if (!is_certain) {
    const SharedLock lock(mutex_);
    is_certain = is_consolidated_;
  }
  if (!is_certain && !is_v3_) {
    const Text group = kept(join_key(key, kGroupFile));
    is_certain = group && *group;
  }
  if (is_certain) arrays_.put(key, std::make_shared<const bool>(is_array));
  return is_array;
}

bool ObjectTexts::is_known_group(const std::string& key) {
  const Text text = kept(join_key(key, is_v3_ ? kZarr3File : kGroupFile));
  if (!text || !*text) return false;
  const Result<EntryKind> kind = is_v3_ ? zarr3_node_type(**text) : EntryKind::group;
  return kind && *kind == EntryKind::group;
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
  const SharedLock lock(mutex_);
  if (!is_consolidated_) return std::nullopt;
  std::set<std::string> names;
  const std::string prefix = group.empty() ? "" : group + "/";
  for (auto at = all_.lower_bound(prefix); at != all_.end() && at->first.starts_with(prefix); ++at) {
    const std::string_view rest = std::string_view(at->first).substr(prefix.size());
    if (const size_t slash = rest.find('/'); slash != rest.npos) names.emplace(rest.substr(0, slash));
  }
  return names;
}

// --- of a store that is written

namespace {

/// Whether the text of a file is the one that is known, perhaps in the form that consolidated metadata gave it.
bool is_same_text(const std::optional<std::string>& text, const std::optional<std::string>& known) {
  if (text == known) return true;
  if (!text || !known) return false;
  const auto json = parse_json(*text, kMaxMetadataBytes);
  return json && print_json(*json) == *known;
}

}  // namespace

void ObjectTexts::set(const std::string& key, std::optional<std::string> text) {
  arrays_.erase(holder_of(key));
  if (!is_consolidated_) {
    absent_.erase(key);
    keep(key, std::make_shared<const std::optional<std::string>>(std::move(text)));
  } else if (text) {
    all_.insert_or_assign(key, std::move(*text));
  } else {
    all_.erase(key);
  }
}

Result<remote::WriteCondition> ObjectTexts::condition_for(const std::string& key) {
  const auto condition_of = [](const std::string& etag) {
    return remote::WriteCondition{.is_new = etag.empty(), .etag = etag};
  };
  {
    const SharedLock lock(mutex_);
    if (const auto known = etags_.find(key); known != etags_.end()) return condition_of(known->second);
  }
  CODECFS_ASSIGN(const Text known, get(key));
  CODECFS_ASSIGN(Read now, read(key));
  if (now.text && now.etag.empty())
    return fail(EOPNOTSUPP, "{}: the server gives it no ETag, so it cannot be changed safely", key);
  const bool is_same = is_same_text(now.text, *known);
  const LockGuard lock(mutex_);
  etags_[key] = now.etag;
  if (is_same) return condition_of(now.etag);
  set(key, std::move(now.text));
  return fail(EAGAIN, "{}: another program has changed it", key);
}

void ObjectTexts::forget(const std::string& key) {
  const LockGuard lock(mutex_);
  etags_.erase(key);
}

void ObjectTexts::note_written(const std::string& key, std::optional<std::string> text, const std::string& etag) {
  const LockGuard lock(mutex_);
  if (text && etag.empty()) {
    etags_.erase(key);  // the server does not say it: it is read when it is needed
  } else {
    etags_[key] = text ? etag : "";
  }
  written_.insert(key);
  set(key, std::move(text));
}

Result<> ObjectTexts::renew_consolidated() {
  const std::string file = consolidated_file();
  CODECFS_ASSIGN(Read consolidated, read(file));
  std::optional<Texts> texts;
  if (consolidated.text) {
    CODECFS_ASSIGN(texts, parse_consolidated(*consolidated.text));
  }
  std::set<std::string> written;
  {
    const LockGuard lock(mutex_);
    written = written_;
    if (is_consolidated_ && !texts) {
      // Each file is read by itself from now on, but what is known of them is not.
      for (auto& [key, text] : all_) read_.put(key, std::make_shared<const std::optional<std::string>>(text));
      all_.clear();
    }
    is_consolidated_ = texts.has_value();
    if (texts) {
      for (const std::string& key : written)
        if (const auto own = all_.find(key); own != all_.end() && key != file)
          texts->insert_or_assign(key, own->second);
      all_ = std::move(*texts);
    }
    set(file, std::move(consolidated.text));
    etags_[file] = consolidated.etag;
  }
  if (!texts) return {};
  written.erase(file);
  // Another program may have changed them again, and may have brought that into the consolidated metadata before.
  for (const std::string& key : written) {
    CODECFS_ASSIGN(Read now, read(key));
    const LockGuard lock(mutex_);
    set(key, std::move(now.text));
    etags_[key] = now.etag;
  }
  return {};
}

void ObjectTexts::note_consolidated() {
  const LockGuard lock(mutex_);
  written_.clear();
}

}  // namespace codecfs::zarr
