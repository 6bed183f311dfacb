#pragma once
// An HDF5 file for conversion into a format that does not have its types and links.

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "backends/api/forwarding_source.h"
#include "backends/api/link_notes.h"
#include "base/mutex.h"

namespace codecfs::commands {

/// The attributes of its groups and variables have kStoredTypes and kStoredLinks where these have something to say.
class NotedTypes final : public WrappedSource {
 public:
  /// `notes_fill`: the format has a fill value only where it marks missing data (Zarr v2).
  NotedTypes(std::unique_ptr<Source> source, bool notes_fill)
      : WrappedSource(std::move(source)), notes_fill_(notes_fill) {}

  Result<std::vector<Attribute>> group_attributes(ObjectId group) override {
    CODECFS_ASSIGN(std::vector<Attribute> attributes, WrappedSource::group_attributes(group));
    if (auto types = stored_types(attributes, nullptr)) attributes.push_back(*std::move(types));
    CODECFS_ASSIGN(const std::optional<Attribute> links, links_of(group));
    if (links) attributes.push_back(*links);
    return attributes;
  }
  Result<VariablePtr> variable(ObjectId variable) override;
  Result<std::vector<Attribute>> variable_attributes(ObjectId variable) override {
    return Source::variable_attributes(variable);  // by variable()
  }

 private:
  /// Read once, as that looks at all members of the group.
  Result<std::optional<Attribute>> links_of(ObjectId group) {
    {
      const LockGuard lock(mutex_);
      if (const auto known = links_.find(group); known != links_.end()) return known->second;
    }
    CODECFS_ASSIGN(const std::vector<Attribute> notes, link_notes(group));
    const LockGuard lock(mutex_);
    return links_.try_emplace(group, stored_links(notes)).first->second;
  }

  const bool notes_fill_;
  Mutex mutex_;
  std::map<ObjectId, std::optional<Attribute>> links_ CODECFS_GUARDED_BY(mutex_);
};

}  // namespace codecfs::commands
