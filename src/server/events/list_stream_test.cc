#include "server/events/list_stream.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/json/indent.h"
#include "api/yaml/yaml.h"
#include "herald/api/codec.h"
#include "herald/base/executor.h"
#include "server/events/stored_event.h"
#include "server/request/request_info.h"
#include "server/request/request_options.h"
#include "server/testing/responder.h"
#include "store/memory/store.h"

namespace herald::server {
namespace {

using std::chrono::seconds;

constexpr int kEvents = 1'500;
// A budget for one list that may not keep encoded pieces.
constexpr std::size_t kTight = ListBudget::kListBytes;

class ListStreamTest : public testing::Test {
 protected:
  using Client = std::shared_ptr<TestResponder>;

  // About 1 MB of values.
  void Fill() {
    for (int i = 0; i < kEvents; ++i) Put(fmt::format("e{:04}", i), std::string(600, 'x'));
  }
  void Put(const std::string& name, const std::string& message) {
    Event event;
    event.metadata.name = name;
    event.metadata.namespace_ = "n";
    event.metadata.labels["app"] = "a";  // such events have to be decoded
    event.message = message;
    event.type = "Normal";
    store_.Commit({.key = EventStoreKey("n", name),
                   .value = std::make_shared<const std::string>(EncodeStored(event))},
                  [](const Result<store::Written>& written) { ASSERT_TRUE(written); });
  }

  // Requests a list. If `reads` is false, the client does not read yet.
  Client List(const std::string& query, Form form = {}, bool reads = true,
              http::Headers headers = {}) {
    auto client = std::make_shared<TestResponder>();
    if (!reads) client->StopReading();
    AdmittedRequest admitted;
    admitted.request.target = "/api/v1/events?" + query;
    admitted.info = ParseRequestInfo("GET", admitted.request.target);
    admitted.request.headers = std::move(headers);
    admitted.request.headers.Add("accept", std::string(MediaTypeName(form.media)));
    ListAnswer answer;
    answer.exchange = std::make_shared<Exchange>(std::move(admitted), client);
    EXPECT_TRUE(answer.exchange->Accept(Offer{.shapes = true}).ok());
    const Result<ListOptions> options =
        ParseListOptions(answer.exchange->query(), form.api, false, clock_.Now());
    EXPECT_TRUE(options) << options.error().ToString();
    answer.charge = budget_->Begin("u");
    EXPECT_TRUE(answer.charge);
    answer.cancelled = std::make_shared<std::atomic<bool>>(false);
    answer.form = form;
    answer.now = clock_.Now();
    answer.log = [this](const LogEntry&) { ++logged_; };
    answer.long_work = &long_work_;
    ReadContext context;
    context.cancelled = answer.cancelled;
    context.reserve = [charge = answer.charge](std::size_t bytes) { return charge->Grow(bytes); };
    const auto reader =
        EventListReader::Make(&store_, EventFilter("", "", *options), *options, context);
    EXPECT_TRUE(reader) << reader.error().ToString();
    answer.reader = *reader;
    context = {};
    SendList(std::move(answer));
    executor_.RunUntilIdle();
    return client;
  }
  // Reads until the end and returns the maximum number of queued bytes.
  static std::size_t ReadToTheEnd(TestResponder& client) {
    std::size_t most = 0;
    for (int i = 0; i < 10'000 && !client.ended(); ++i) {
      most = std::max(most, client.queued());
      client.ReadAll();
    }
    EXPECT_TRUE(client.ended());
    return most;
  }
  void SetLimit(std::size_t bytes) { budget_ = std::make_shared<ListBudget>(bytes); }

  // The same list as the codec encodes it.
  std::string Expected(Form form, std::size_t first = 0, std::size_t count = kEvents,
                       ListMeta metadata = {}) {
    if (metadata.resource_version.empty()) metadata.resource_version = std::to_string(kEvents);
    EventList list{.metadata = std::move(metadata), .items = {}};
    store_.Read({}, [&](Result<store::Page> page) {
      for (std::size_t i = first; i < first + count; ++i) {
        list.items.push_back(*DecodeStored(page->entries[i]));
      }
    });
    std::string out;
    switch (form.shape) {
      case Shape::kTable:
        AppendTableJson(MakeEventTable(list.metadata, list.items, form.api, form.table_object,
                                       Timestamp(clock_.Now()), form.meta_version),
                        true, &out);
        break;
      case Shape::kPartialMetadata:
        AppendPartialMetadataListJson(list.metadata, list.items, form.meta_version, &out);
        break;
      case Shape::kPlain:
        (form.media == MediaType::kProtobuf ? ProtobufCodec() : JsonCodec())
            .AppendEventList(list, form.api, &out);
    }
    return out;
  }

  FakeClock clock_{WallTime(seconds(1'700'000'000))};
  store::MemoryStore store_{[this] {
    store::StoreOptions options;
    options.schema = MakeEventSchema([](const Event&) { return seconds(36000); });
    options.clock = &clock_;
    options.background = false;
    options.watch_window = seconds(10);
    return options;
  }()};
  Executor executor_{{.threads = 0, .clock = &clock_}};
  FairQueue long_work_{&executor_, {.concurrency = 1}};
  std::shared_ptr<ListBudget> budget_ = std::make_shared<ListBudget>();
  int logged_ = 0;
};

TEST_F(ListStreamTest, AListThatIsNotReadHoldsABoundedAmount) {
  Fill();
  const Client client = List("", {}, false);
  const std::size_t held = client->body().size();
  EXPECT_GT(held, 0U);
  EXPECT_LT(held, ListBudget::kListBytes) << "of more than a megabyte";
  EXPECT_EQ(client->queued(), held);
  EXPECT_FALSE(client->ended());
  EXPECT_EQ(budget_->bytes(), ListBudget::kListBytes);

  EXPECT_LT(ReadToTheEnd(*client), ListBudget::kListBytes);
  EXPECT_EQ(client->body(), Expected({}));
  EXPECT_EQ(budget_->bytes(), 0U);
}

TEST_F(ListStreamTest, TheChargeLastsUntilTheClientHasReadEverything) {
  Put("a", std::string(200'000, 'x'));
  const Client client = List("", {}, false);
  EXPECT_GT(client->body().size(), 200'000U) << "all of it is queued";
  EXPECT_FALSE(client->ended());
  EXPECT_EQ(budget_->bytes(), ListBudget::kListBytes);
  client->ReadAll();
  EXPECT_TRUE(client->ended());
  EXPECT_EQ(budget_->bytes(), 0U);
}

TEST_F(ListStreamTest, AShortListIsOneAnswer) {
  Put("a", "m");
  const Client client = List("");
  EXPECT_EQ(client->pieces(), 0U);
  EXPECT_EQ(client->body(), Expected({}, 0, 1, {.resource_version = "1"}));
  EXPECT_EQ(budget_->bytes(), 0U);
}

TEST_F(ListStreamTest, SendsOneRevisionToASlowClient) {
  Fill();
  const std::string expected = Expected({});
  const Client client = List("", {}, false);
  Put("e0000a", "new");
  Put("e1400", "changed");
  store_.Commit({.key = EventStoreKey("n", "e1450"), .value = nullptr},
                [](const Result<store::Written>&) {});
  ReadToTheEnd(*client);
  EXPECT_EQ(client->body(), expected);
}

TEST_F(ListStreamTest, IsCutOffWhenItsRevisionIsCompacted) {
  Fill();
  const Client client = List("", {}, false);
  Put("later", "m");
  clock_.Advance(seconds(60));
  Put("later", "n");
  store_.Maintain();
  client->ReadAll();
  EXPECT_TRUE(client->aborted());
  EXPECT_EQ(client->status(), 200);
  EXPECT_EQ(logged_, 1);
  EXPECT_EQ(budget_->bytes(), 0U);
}

TEST_F(ListStreamTest, ReleasesEverythingWhenTheClientDisconnects) {
  Fill();
  const Client client = List("", {}, false);
  client->Close();
  EXPECT_EQ(budget_->bytes(), 0U);
  client->ReadAll();
  EXPECT_FALSE(client->ended());
}

TEST_F(ListStreamTest, EveryFormHasTheSameBytesInPieces) {
  Fill();
  const Form forms[] = {
      {.api = EventApi::kEventsV1},
      {.shape = Shape::kTable},
      {.shape = Shape::kTable,
       .meta_version = MetaVersion::kV1Beta1,
       .table_object = TableObject::kObject},
      {.shape = Shape::kPartialMetadata},
      {.media = MediaType::kProtobuf},
      {.api = EventApi::kEventsV1, .media = MediaType::kProtobuf},
  };
  for (const bool tight : {false, true}) {
    SetLimit(tight ? kTight : ListBudget::kMaxBytes);
    for (const Form& form : forms) {
      const Client client = List("", form, false);
      EXPECT_LT(ReadToTheEnd(*client), ListBudget::kListBytes);
      EXPECT_GT(client->pieces(), 1U);
      EXPECT_EQ(client->body() == Expected(form), true) << "not equal";
      EXPECT_EQ(client->header("content-type"), MediaTypeName(form.media));
      EXPECT_EQ(budget_->bytes(), 0U);
    }
  }
}

TEST_F(ListStreamTest, PartialMetadataInProtobufIsTheSameWhetherItIsKeptOrReadTwice) {
  Fill();
  for (const MetaVersion version : {MetaVersion::kV1, MetaVersion::kV1Beta1}) {
    const Form form{
        .media = MediaType::kProtobuf, .shape = Shape::kPartialMetadata, .meta_version = version};
    SetLimit(ListBudget::kMaxBytes);
    const std::string kept = List("", form)->body();
    SetLimit(kTight);
    EXPECT_EQ(List("", form)->body() == kept, true);
    EXPECT_TRUE(kept.starts_with(std::string("k8s\0", 4)));
  }
}

TEST_F(ListStreamTest, APageKnowsItsContinueTokenBeforeItsItems) {
  Fill();
  for (const bool tight : {false, true}) {
    SetLimit(tight ? kTight : ListBudget::kMaxBytes);
    const Client client = List("limit=1000", {}, false);
    EXPECT_LT(ReadToTheEnd(*client), ListBudget::kListBytes);
    const Result<EventList> page = JsonCodec().DecodeEventList(client->body(), EventApi::kCoreV1);
    ASSERT_TRUE(page);
    EXPECT_EQ(page->items.size(), 1000U);
    EXPECT_EQ(page->metadata.remaining_item_count, kEvents - 1000);
    EXPECT_EQ(client->body() == Expected({}, 0, 1000, page->metadata), true) << "not equal";

    const Client rest = List("limit=1000&continue=" + page->metadata.continue_, {}, false);
    ReadToTheEnd(*rest);
    EXPECT_EQ(rest->body() == Expected({}, 1000, kEvents - 1000), true) << "not equal";
  }
}

TEST_F(ListStreamTest, IndentsInPieces) {
  Fill();
  const Client client = List("pretty=true", {}, false);
  EXPECT_LT(ReadToTheEnd(*client), 2 * ListBudget::kListBytes);
  EXPECT_GT(client->pieces(), 1U);
  EXPECT_EQ(client->body() == IndentJson(Expected({})), true) << "not equal";
}

TEST_F(ListStreamTest, YamlIsMadeOfTheWholeListAndCharged) {
  Fill();
  const Form yaml{.media = MediaType::kYaml};
  const Client client = List("", yaml, false);
  EXPECT_GT(budget_->bytes(), 1'000'000U);
  EXPECT_LT(client->queued(), ListBudget::kListBytes);
  ReadToTheEnd(*client);
  EXPECT_EQ(client->body() == JsonToYaml(Expected({})), true) << "not equal";
  EXPECT_EQ(budget_->bytes(), 0U);

  SetLimit(kTight);
  const Client rejected = List("", yaml);
  EXPECT_EQ(rejected->status(), 429);
  EXPECT_EQ(rejected->header("retry-after"), "1");
  EXPECT_EQ(budget_->bytes(), 0U);
}

TEST_F(ListStreamTest, AListThatIsTooLongForYamlIsNotAcceptable) {
  for (int i = 0; i < 9; ++i) Put(fmt::format("e{}", i), std::string(1'000'000, 'x'));
  const Client client = List("", {.media = MediaType::kYaml});
  EXPECT_EQ(client->status(), 406);
  EXPECT_EQ(budget_->bytes(), 0U);
}

TEST_F(ListStreamTest, AnEventThatIsLargerThanTheBudgetIsRejectedOrCutOff) {
  Put("a", std::string(1'000'000, 'x'));
  SetLimit(kTight);
  EXPECT_EQ(List("")->status(), 429);
  Put("A", std::string(100'000, 'x'));  // comes before
  const Client client = List("");
  EXPECT_EQ(client->status(), 200);
  EXPECT_TRUE(client->aborted());
}

}  // namespace
}  // namespace herald::server
