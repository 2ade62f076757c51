// Subscribes like a ROS 2 node with Fast DDS, with a message decoder written for this test, and prints each
// message as a JSON line. Usage: ros2_subscriber_fastdds DOMAIN TOPIC
#include <fastcdr/Cdr.h>
#include <fastdds/rtps/transport/UDPv4TransportDescriptor.h>
#include <fastrtps/utils/IPLocator.h>
#include <fastdds/dds/domain/DomainParticipant.hpp>
#include <fastdds/dds/domain/DomainParticipantFactory.hpp>
#include <fastdds/dds/subscriber/DataReader.hpp>
#include <fastdds/dds/subscriber/SampleInfo.hpp>
#include <fastdds/dds/subscriber/Subscriber.hpp>
#include <fastdds/dds/topic/TopicDataType.hpp>
#include <fastdds/dds/topic/TypeSupport.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/json.h"

namespace headroom::test {
namespace {
using namespace eprosima::fastdds::dds;
using eprosima::fastcdr::Cdr;
using eprosima::fastrtps::rtps::InstanceHandle_t;
using eprosima::fastrtps::rtps::SerializedPayload_t;

std::string text_of(Cdr& cdr) {
  std::string text;
  cdr >> text;
  return text;
}

Json read_message(Cdr& cdr) {
  std::int32_t sec = 0;
  std::uint32_t nanosec = 0, statuses = 0;
  cdr >> sec >> nanosec;
  Json document = {{"sec", sec}, {"nanosec", nanosec}, {"frame_id", text_of(cdr)}, {"status", Json::array()}};
  cdr >> statuses;
  for (std::uint32_t i = 0; i < statuses; ++i) {
    std::uint8_t level = 0;
    cdr >> level;
    Json status = {{"level", level}};
    for (const char* key : {"name", "message", "hardware_id"}) status[key] = text_of(cdr);
    std::uint32_t values = 0;
    cdr >> values;
    status["values"] = Json::object();
    for (std::uint32_t j = 0; j < values; ++j) {
      const std::string key = text_of(cdr);
      status["values"][key] = text_of(cdr);
    }
    document["status"].push_back(std::move(status));
  }
  return document;
}

class DiagnosticArrayType : public TopicDataType {
 public:
  DiagnosticArrayType() {
    setName("diagnostic_msgs::msg::dds_::DiagnosticArray_");
    m_typeSize = 4096;  // initial size
    auto_fill_type_object(false);
    auto_fill_type_information(false);
  }
  bool serialize(void*, SerializedPayload_t*) override { return false; }
  bool deserialize(SerializedPayload_t* payload, void* data) override {
    try {
      eprosima::fastcdr::FastBuffer buffer(reinterpret_cast<char*>(payload->data), payload->length);
      Cdr cdr(buffer, Cdr::DEFAULT_ENDIAN, Cdr::DDS_CDR);
      cdr.read_encapsulation();
      *static_cast<Json*>(data) = read_message(cdr);
    } catch (const eprosima::fastcdr::exception::Exception& error) {
      std::fprintf(stderr, "not a DiagnosticArray: %s\n", error.what());
      return false;
    }
    return true;
  }
  std::function<std::uint32_t()> getSerializedSizeProvider(void*) override {
    return [] { return std::uint32_t{0}; };
  }
  void* createData() override { return new Json; }
  void deleteData(void* data) override { delete static_cast<Json*>(data); }
  bool getKey(void*, InstanceHandle_t*, bool) override { return false; }
};

// Uses only the loopback interface.
DomainParticipantQos loopback() {
  DomainParticipantQos qos = PARTICIPANT_QOS_DEFAULT;
  auto transport = std::make_shared<eprosima::fastdds::rtps::UDPv4TransportDescriptor>();
  transport->interfaceWhiteList.push_back("127.0.0.1");
  qos.transport().use_builtin_transports = false;
  qos.transport().user_transports.push_back(std::move(transport));
  eprosima::fastrtps::rtps::Locator_t local;
  eprosima::fastrtps::rtps::IPLocator::setIPv4(local, 127, 0, 0, 1);
  auto& builtin = qos.wire_protocol().builtin;
  builtin.initialPeersList.push_back(local);
  builtin.metatrafficUnicastLocatorList.push_back(local);
  return qos;
}

int listen(std::uint32_t domain, const char* topic_name) {
  DomainParticipant* participant =
      DomainParticipantFactory::get_instance()->create_participant(domain, loopback());
  if (participant == nullptr) return 1;
  TypeSupport type(new DiagnosticArrayType);
  type.register_type(participant);
  Topic* topic = participant->create_topic(topic_name, type.get_type_name(), TOPIC_QOS_DEFAULT);
  Subscriber* subscriber = participant->create_subscriber(SUBSCRIBER_QOS_DEFAULT);
  if (topic == nullptr || subscriber == nullptr) return 1;
  DataReaderQos qos = DATAREADER_QOS_DEFAULT;
  qos.reliability().kind = RELIABLE_RELIABILITY_QOS;
  qos.history().kind = KEEP_LAST_HISTORY_QOS;
  qos.history().depth = 100;
  qos.endpoint().history_memory_policy = eprosima::fastrtps::rtps::PREALLOCATED_WITH_REALLOC_MEMORY_MODE;
  DataReader* reader = subscriber->create_datareader(topic, qos);
  if (reader == nullptr) return 1;
  for (;;) {
    if (!reader->wait_for_unread_message({1, 0})) continue;
    Json message;
    SampleInfo info;
    while (reader->take_next_sample(&message, &info) == ReturnCode_t::RETCODE_OK) {
      if (!info.valid_data) continue;
      std::puts(to_line(message).c_str());
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace headroom::test

int main(int count, char** arguments) {
  if (count != 3) return 2;
  return headroom::test::listen(static_cast<std::uint32_t>(std::atoi(arguments[1])), arguments[2]);
}
