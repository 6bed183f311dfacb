// Sources that forward to sources in memory.

#include "backends/api/forwarding_source.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/memory_source.h"

namespace codecfs {
namespace {

/// Two sources, whose objects have the numbers that they have there, doubled: odd ones are those of the second.
class TwoSources final : public ForwardingSource {
 public:
  MemorySource first, second;

  [[nodiscard]] std::string format() const override { return "two"; }
  [[nodiscard]] const struct stat& status() const override { return first.status(); }
  [[nodiscard]] Entry root() const override { return {}; }

  static ObjectId in_first(ObjectId id) { return 2 * id; }
  static ObjectId in_second(ObjectId id) { return 2 * id + 1; }

 private:
  Result<Target> target(ObjectId id, Purpose purpose) override {
    if (id == 2 * kGone) return fail(purpose == Purpose::reading_chunks ? ESTALE : ENOENT, "gone");
    if (id == 2 * kClosed && purpose == Purpose::writing) return fail(EBUSY, "closed");
    return Target{.source = id % 2 == 0 ? first : second, .id = id / 2};
  }
  Result<> shown(ObjectId group, const Target&, Entry& entry) override {
    entry.object = 2 * entry.object + group % 2;
    return {};
  }
  void explain(ObjectId id, Error& error) override {
    error.reason = (id % 2 == 0 ? "first: " : "second: ") + error.reason;
  }

 public:
  static constexpr ObjectId kGone = 1'000;
  static constexpr ObjectId kClosed = 2'000;
};

TEST(ForwardingSource, AsksTheSourceThatHasTheObject) {
  TwoSources two;
  two.first.add_variable("/a", text_variable({4}, {4}));
  two.second.add_group("/g");
  two.second.add_variable("/g/b", text_variable({8}, {4}));
  two.second.put("/g/b", 1, "late");

  const ObjectId group = TwoSources::in_second(two.second.object("/g"));
  const Result<Entry> found = two.find(group, "b");
  ASSERT_TRUE(found) << found.error().reason;
  EXPECT_EQ(found->object, TwoSources::in_second(two.second.object("/g/b")));
  const auto listed = two.list(group);
  ASSERT_TRUE(listed);
  ASSERT_EQ(listed->size(), 1U);
  EXPECT_EQ(listed->front().object, found->object);
  EXPECT_EQ((*two.variable(found->object))->grid.shape().front(), 8U);
  EXPECT_EQ((*two.variable(TwoSources::in_first(two.first.object("/a"))))->grid.shape().front(), 4U);
  EXPECT_EQ(text_of(two.read_chunk(found->object, 1)->bytes()), "late");

  const Result<Entry> made = two.make_group(group, "below");
  ASSERT_TRUE(made);
  EXPECT_EQ(made->object, TwoSources::in_second(two.second.object("/g/below")));
  ASSERT_TRUE(two.write_chunk(found->object, 0, bytes_of("soon")));
  EXPECT_EQ(two.second.chunk("/g/b", 0), "soon");
}

TEST(ForwardingSource, ErrorsAreThoseOfTheObjectsSource) {
  TwoSources two;
  two.second.add_variable("/b", text_variable({4}, {4}));
  const Result<Buffer> absent = two.read_chunk(TwoSources::in_second(two.second.object("/b")), 0);
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, ENOENT);
  EXPECT_TRUE(absent.error().reason.starts_with("second: ")) << absent.error().reason;
}

TEST(ForwardingSource, NothingIsMovedToAnotherSource) {
  TwoSources two;
  two.first.add_group("/a");
  two.second.add_group("/b");
  const ObjectId from = TwoSources::in_first(two.first.root().object);
  const ObjectId to = TwoSources::in_second(two.second.object("/b"));
  const Result<> moved = two.rename(from, "a", to, "a");
  ASSERT_FALSE(moved);
  EXPECT_EQ(moved.error().code, EXDEV);
  EXPECT_TRUE(two.first.find(two.first.root().object, "a"));
  const ObjectId beside = TwoSources::in_first(two.first.object("/a"));
  ASSERT_TRUE(two.make_group(from, "c"));
  EXPECT_TRUE(two.rename(from, "c", beside, "d"));
  EXPECT_TRUE(two.first.find(two.first.object("/a"), "d"));
}

TEST(ForwardingSource, TellsForWhatAnObjectIsWanted) {
  TwoSources two;
  const ObjectId gone = 2 * TwoSources::kGone;
  EXPECT_EQ(two.variable(gone).error().code, ENOENT);
  EXPECT_EQ(two.variable_attributes(gone).error().code, ENOENT);
  // ENOENT would mean that the chunk is not stored.
  EXPECT_EQ(two.facts(gone).error().code, ESTALE);
  EXPECT_EQ(two.locate(gone, 0).error().code, ESTALE);
  EXPECT_EQ(two.stored_chunks(gone, 0, 1).error().code, ESTALE);
  EXPECT_EQ(two.fetch_chunk(gone, 0).error().code, ESTALE);
  EXPECT_EQ(two.read_part(gone, 0, 0, 1).error().code, ESTALE);
  EXPECT_EQ(two.expect(gone, {}).error().code, ESTALE);
  EXPECT_EQ(two.read_stored(gone, 0).error().code, ESTALE);
  EXPECT_EQ(two.stored_bytes(gone, 0).error().code, ESTALE);
  EXPECT_EQ(two.open_stored(gone, 0).error().code, ESTALE);
  EXPECT_EQ(two.stored_offset(gone, 0).error().code, ESTALE);
  EXPECT_EQ(two.stored_shards(gone, 0, 1).error().code, ESTALE);
  EXPECT_EQ(two.open_shard(gone, 0).error().code, ESTALE);

  const ObjectId closed = 2 * TwoSources::kClosed;
  Progress progress;
  EXPECT_EQ(two.begin_writing_to(closed).error().code, EBUSY);
  EXPECT_EQ(two.write_chunk(closed, 0, {}).error().code, EBUSY);
  EXPECT_EQ(two.write_chunks(closed, {}).error().code, EBUSY);
  EXPECT_EQ(two.write_stored(closed, 0, {}).error().code, EBUSY);
  EXPECT_EQ(two.begin_updates(closed).error().code, EBUSY);
  EXPECT_EQ(two.fetch_base(closed, 0).error().code, EBUSY);
  EXPECT_EQ(two.update_chunk(closed, 0, {}, {}, {}).error().code, EBUSY);
  EXPECT_EQ(two.remove_chunk(closed, 0).error().code, EBUSY);
  EXPECT_EQ(two.write_shard(closed, 0, {}).error().code, EBUSY);
  EXPECT_EQ(two.remove_shard(closed, 0).error().code, EBUSY);
  EXPECT_EQ(two.make_group(closed, "g").error().code, EBUSY);
  EXPECT_EQ(two.define_dimensions(closed, {}).error().code, EBUSY);
  EXPECT_EQ(two.make_variable(closed, "v", {}).error().code, EBUSY);
  EXPECT_EQ(two.make_link(closed, "l", "t").error().code, EBUSY);
  EXPECT_EQ(two.restore_link(closed, "l", "{}").error().code, EBUSY);
  EXPECT_EQ(two.remove(closed, "v").error().code, EBUSY);
  EXPECT_EQ(two.rename(closed, "v", closed, "w").error().code, EBUSY);
  EXPECT_EQ(two.set_attributes(closed, {}, {}).error().code, EBUSY);
  EXPECT_EQ(two.set_dimensions(closed, {}).error().code, EBUSY);
  EXPECT_EQ(two.set_metadata(closed, {}, {}, {}).error().code, EBUSY);
  EXPECT_EQ(two.set_dimension_names(closed, {}).error().code, EBUSY);
  EXPECT_EQ(two.resize(closed, {}).error().code, EBUSY);
  EXPECT_EQ(two.set_filters(closed, {}, progress).error().code, EBUSY);
  EXPECT_EQ(two.encode_masked_chunks(closed, progress).error().code, EBUSY);
  EXPECT_EQ(two.set_sharding(closed, {}, progress).error().code, EBUSY);
}

class Counting final : public MemorySource {
 public:
  explicit Counting(int& ends) : ends_(ends) {}
  Result<> finish() override {
    ++ends_;
    return {};
  }

 private:
  int& ends_;
};

TEST(WrappedSource, NothingIsWrittenThroughIt) {
  MemorySource source;
  source.add_variable("/v", text_variable({4}, {4}));
  source.put("/v", 0, "kept");
  WrappedSource wrapped(source);
  const ObjectId v = source.object("/v");
  Progress progress;
  EXPECT_EQ(wrapped.writable().error().code, EROFS);
  EXPECT_EQ(wrapped.variable_writable(v).error().code, EROFS);
  EXPECT_EQ(wrapped.begin_writing_to(v).error().code, EROFS);
  EXPECT_EQ(wrapped.write_chunk(v, 0, bytes_of("lost")).error().code, EROFS);
  EXPECT_EQ(wrapped.write_stored(v, 0, bytes_of("lost")).error().code, EROFS);
  EXPECT_EQ(wrapped.remove_chunk(v, 0).error().code, EROFS);
  EXPECT_EQ(wrapped.remove(source.root().object, "v").error().code, EROFS);
  EXPECT_EQ(wrapped.resize(v, std::vector<uint64_t>{0}).error().code, EROFS);
  EXPECT_EQ(wrapped.set_filters(v, {}, progress).error().code, EROFS);
  EXPECT_EQ(text_of(wrapped.read_chunk(v, 0)->bytes()), "kept");
}

TEST(WrappedSource, OnlyOneThatItOwnsEndsWithIt) {
  int ends = 0;
  auto source = std::make_unique<Counting>(ends);
  EXPECT_TRUE(WrappedSource(*source).finish());
  EXPECT_EQ(ends, 0);
  EXPECT_TRUE(WrappedSource(std::move(source)).finish());
  EXPECT_EQ(ends, 1);
}

TEST(WrappedSource, TheOwnerOfASourceLearnsWhatWasChanged) {
  auto source = std::make_unique<MemorySource>();
  source->add_variable("/v", text_variable({4}, {4}));
  const ObjectId v = source->object("/v");
  source->note_changed_outside("/v");
  EXPECT_FALSE(WrappedSource(*source).changed_outside(v));
  EXPECT_TRUE(source->changed_outside(v)) << "it was not reported before";
  source->note_changed_outside("/v");
  EXPECT_TRUE(WrappedSource(std::move(source)).changed_outside(v));
}

}  // namespace
}  // namespace codecfs
