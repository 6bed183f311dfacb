// A file is opened once more for each thread that reads, and only while it is the same file.

#include "commands/readers.h"

#include <gtest/gtest.h>

#include "support/memory_source.h"

namespace codecfs::commands {
namespace {

class ReadersTest : public testing::Test {
 protected:
  ReadersTest() {
    fill(source_, {"/v", "/w"});
    named_ = {{"v", *object_of(source_, "v")}, {"w", *object_of(source_, "w")}};
  }
  static void fill(MemorySource& source, const std::vector<std::string>& names) {
    for (const std::string& name : names) source.add_variable(name, text_variable({4}, {2}));
  }
  static Result<ObjectId> object_of(Source& source, const std::string& name) {
    CODECFS_ASSIGN(const Entry entry, source.find(source.root().object, name));
    return entry.object;
  }
  OpenAgain opens(std::vector<std::string> names) {
    return [this, names] {
      ++opened_;
      auto source = std::make_unique<MemorySource>();
      source->add_group("/first");  // its objects have other numbers
      fill(*source, names);
      return Result<std::unique_ptr<Source>>(std::move(source));
    };
  }
  MemorySource source_;
  std::vector<Named> named_;
  int opened_ = 0;
};

TEST_F(ReadersTest, EachLeaseHasASourceOfItsOwn) {
  Readers readers(source_, named_, opens({"/v", "/w"}));
  const Source* second_source = nullptr;
  {
    const Readers::Lease first = readers.take();
    const Readers::Lease second = readers.take();
    EXPECT_EQ(&first.source(), &source_);
    second_source = &second.source();
    EXPECT_NE(second_source, &source_);
    ASSERT_EQ(second.objects().size(), 2U);
    EXPECT_EQ(second.objects()[1], *object_of(second.source(), "w"));
    EXPECT_NE(second.objects()[1], first.objects()[1]);
  }
  const Readers::Lease again = readers.take();
  const Readers::Lease other = readers.take();
  EXPECT_EQ(opened_, 1) << "sources are used again";
  EXPECT_TRUE(&again.source() == second_source || &other.source() == second_source);
}

class SourceWithTwin final : public MemorySource {
 public:
  Result<std::unique_ptr<Source>> open_twin() override {
    auto twin = std::make_unique<MemorySource>();
    for (const char* name : {"/v", "/w"}) twin->add_variable(name, text_variable({4}, {2}));
    return Result<std::unique_ptr<Source>>(std::move(twin));
  }
};

TEST_F(ReadersTest, ATwinHasTheNumbersOfTheFirst) {
  SourceWithTwin source;
  fill(source, {"/v", "/w"});
  const std::vector<Named> named = {{"v", *object_of(source, "v")}, {"w", *object_of(source, "w")}};
  Readers readers(source, named, opens({"/v", "/w"}));
  const Readers::Lease first = readers.take();
  const Readers::Lease second = readers.take();
  EXPECT_NE(&second.source(), &source);
  EXPECT_TRUE(std::ranges::equal(second.objects(), first.objects()));
  EXPECT_EQ(opened_, 0);
}

TEST_F(ReadersTest, AnotherFileIsNotRead) {
  for (const std::vector<std::string>& names : {std::vector<std::string>{"/v", "/x"}, {"/v"}, {"/v", "/w", "/x"}}) {
    Readers readers(source_, named_, opens(names));
    const Readers::Lease first = readers.take();
    const Readers::Lease second = readers.take();
    EXPECT_EQ(&second.source(), &source_);
  }
}

TEST_F(ReadersTest, WithoutAnotherSourceAllShareTheFirst) {
  Readers unable(source_, named_, [this] {
    ++opened_;
    return Result<std::unique_ptr<Source>>(fail(EMFILE, "too many"));
  });
  Readers one(source_, named_, {});
  for (Readers* readers : {&unable, &one}) {
    const Readers::Lease first = readers->take();
    const Readers::Lease second = readers->take();
    const Readers::Lease third = readers->take();
    EXPECT_EQ(&second.source(), &source_);
    EXPECT_EQ(&third.source(), &source_);
  }
  EXPECT_EQ(opened_, 1) << "it is tried once";
}

}  // namespace
}  // namespace codecfs::commands
