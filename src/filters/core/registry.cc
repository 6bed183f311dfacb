// The registered filters. They are few and rarely change: a list with linear search, under a shared mutex.

#include <algorithm>
#include <charconv>
#include <string>
#include <tuple>
#include <utility>

#include "base/ascii.h"
#include "base/mutex.h"
#include "filters/core/filter.h"
#include "filters/plugins/plugins.h"
#include "model/json.h"

namespace codecfs::filters {

namespace codecs {
#define CODECFS_FILTER(name) \
  namespace name {           \
  Filter make_filter();      \
  }
#include "filters/codecs/all.inc"
#undef CODECFS_FILTER
}  // namespace codecs

namespace {

bool has_name(const Filter& filter, std::string_view name) {
  return is_same_word(filter.name, name) ||
         std::ranges::any_of(filter.aliases, [&](const std::string& alias) { return is_same_word(alias, name); });
}

class Registry {
 public:
  Result<> add(Filter filter) {
    if (filter.name.empty()) return fail(EINVAL, "a filter without a name");
    const LockGuard lock(mutex_);
    for (const FilterPtr& other : filters_) {
      const bool same_id = filter.id != 0 && filter.id == other->id;
      const bool same_codec = !filter.codec.empty() && filter.codec == other->codec;
      const bool same_alias = std::ranges::any_of(filter.aliases, [&](const auto& a) { return has_name(*other, a); });
      if (same_id || same_codec || same_alias || has_name(*other, filter.name))
        return fail(EEXIST, "filter {} (id {}, codec '{}') is known already as {} (id {}, codec '{}')", filter.name,
                    filter.id, filter.codec, other->name, other->id, other->codec);
    }
    filters_.push_back(std::make_shared<const Filter>(std::move(filter)));
    return {};
  }

  template <class Predicate>
  size_t remove(Predicate predicate) {
    const LockGuard lock(mutex_);
    return std::erase_if(filters_, [&](const FilterPtr& f) { return predicate(*f); });
  }

  template <class Predicate>
  FilterPtr find(Predicate predicate) const {
    const SharedLock lock(mutex_);
    const auto found = std::ranges::find_if(filters_, [&](const FilterPtr& f) { return predicate(*f); });
    return found == filters_.end() ? nullptr : *found;
  }

  std::vector<FilterPtr> list() const {
    const SharedLock lock(mutex_);
    return filters_;
  }

 private:
  mutable SharedMutex mutex_;
  std::vector<FilterPtr> filters_ CODECFS_GUARDED_BY(mutex_);
};

Registry& registry() {
  static Registry& instance = [] -> Registry& {
    auto& made = *new Registry;  // never destroyed: other threads may decode during static destruction
#define CODECFS_FILTER(name) (void)made.add(codecs::name::make_filter());
#include "filters/codecs/all.inc"
#undef CODECFS_FILTER
    return made;
  }();
  return instance;
}

/// Searches the registered filters; if none matches, loads the plugins and searches again.
template <class Predicate>
FilterPtr find_anywhere(Predicate predicate) {
  const bool all = plugins_are_loaded();
  FilterPtr found = registry().find(predicate);
  if (found != nullptr || all) return found;
  load_plugins();
  return registry().find(predicate);
}

auto with_id(uint32_t id) {
  return [id](const Filter& f) { return id != 0 && f.id == id; };
}
auto with_codec(std::string_view codec) {
  return [codec](const Filter& f) { return !codec.empty() && f.codec == codec; };
}
auto with_name(std::string_view name) {
  return [name](const Filter& f) { return has_name(f, name); };
}

bool may_come_from_plugin(const Filter& f) {
  return f.id != 0 && f.make_coder && f.hdf5_library.empty() && !f.in_libhdf5;
}

}  // namespace

Result<> register_filter(Filter filter) { return registry().add(std::move(filter)); }

Result<> unregister_filter(uint32_t id) {
  if (registry().remove(with_id(id)) == 0) return fail(ENOENT, "filter {} is not known", id);
  return {};
}

void unregister_built_in() { registry().remove(may_come_from_plugin); }

Result<> unregister_built_in(std::string_view name_or_id) {
  const size_t removed = registry().remove([&](const Filter& f) {
    return may_come_from_plugin(f) && (has_name(f, name_or_id) || name_or_id == std::to_string(f.id));
  });
  if (removed == 0) return fail(ENOENT, "{} is not a built-in filter that a plugin can replace", name_or_id);
  return {};
}

FilterPtr find_by_id(uint32_t id) { return find_anywhere(with_id(id)); }
FilterPtr find_by_codec(std::string_view codec) { return find_anywhere(with_codec(codec)); }
FilterPtr find_by_name(std::string_view name) { return find_anywhere(with_name(name)); }
FilterPtr find_registered(uint32_t id) { return registry().find(with_id(id)); }
FilterPtr find_registered(std::string_view codec) { return registry().find(with_codec(codec)); }
bool is_registered_name(std::string_view name) { return registry().find(with_name(name)) != nullptr; }

std::vector<FilterPtr> list() {
  std::vector<FilterPtr> all = registry().list();
  std::ranges::sort(all, {},
                    [](const FilterPtr& f) { return std::tuple(f->id == 0, f->id, std::string_view(f->name)); });
  return all;
}

FilterPtr find_for(const FilterStage& stage) {
  const auto* id = stage.codec->is_object() && stage.codec->contains("id")
                       ? (*stage.codec)["id"].get_ptr<const std::string*>()
                       : nullptr;
  if (id == nullptr || id->starts_with("hdf5:")) return find_by_id(stage.id);
  return find_by_codec(*id);
}

SizeBound compressed_size(const SizeBound& decoded) {
  return {.max = decoded.max + decoded.max / 4 + 4096, .exact = std::nullopt};
}

std::function<SizeBound(const SizeBound&)> adds_bytes(uint64_t bytes) {
  return [bytes](const SizeBound& decoded) -> SizeBound {
    if (decoded.exact) return SizeBound::exactly(*decoded.exact + bytes);
    return {.max = decoded.max + bytes, .exact = std::nullopt, .is_usual = decoded.is_usual};
  };
}

std::function<SizeBound(const SizeBound&)> resizes_elements(uint64_t decoded_size, uint64_t encoded_size) {
  return [=](const SizeBound& decoded) -> SizeBound {
    const uint64_t max = decoded.max / decoded_size * encoded_size;
    if (decoded.exact && *decoded.exact % decoded_size == 0) return SizeBound::exactly(max);
    return {.max = max, .exact = std::nullopt};
  };
}

}  // namespace codecfs::filters
