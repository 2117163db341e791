import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.storm.Config;
import org.apache.storm.LocalCluster;
import org.apache.storm.kafka.bolt.KafkaBolt;
import org.apache.storm.kafka.bolt.mapper.FieldNameBasedTupleToKafkaMapper;
import org.apache.storm.kafka.bolt.selector.DefaultTopicSelector;
import org.apache.storm.kafka.spout.FirstPollOffsetStrategy;
import org.apache.storm.kafka.spout.KafkaSpout;
import org.apache.storm.kafka.spout.KafkaSpoutConfig;
import org.apache.storm.task.ShellBolt;
import org.apache.storm.topology.IRichBolt;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Values;

/** Storm's word count with two bolts by multilang, at least once, for the guide on moving. */
public class StormWordCount {
    public static class Program extends ShellBolt implements IRichBolt {
        private final Fields fields;

        Program(Fields fields, String... command) {
            super(command);
            this.fields = fields;
            changeChildCWD(false);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(fields);
        }

        @Override
        public Map<String, Object> getComponentConfiguration() {
            return null;
        }
    }

    /** Arguments: Kafka's address, the interpreter, the folder of the programs. */
    public static void main(String[] args) throws Exception {
        KafkaSpoutConfig<String, String> spout = KafkaSpoutConfig.builder(args[0], "sentences")
            .setProp(ConsumerConfig.GROUP_ID_CONFIG, "storm-word-count")
            .setProcessingGuarantee(KafkaSpoutConfig.ProcessingGuarantee.AT_LEAST_ONCE)
            .setFirstPollOffsetStrategy(FirstPollOffsetStrategy.UNCOMMITTED_EARLIEST)
            .setOffsetCommitPeriodMs(2000)
            .setRecordTranslator(record -> new Values(record.value()), new Fields("sentence"))
            .build();
        Properties producer = new Properties();
        producer.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        producer.put(ProducerConfig.ACKS_CONFIG, "all");
        producer.put(ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, StringSerializer.class.getName());
        producer.put(ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, StringSerializer.class.getName());

        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("sentences", new KafkaSpout<>(spout));
        builder.setBolt("split", new Program(new Fields("word"), args[1], args[2] + "/split.py"))
            .shuffleGrouping("sentences");
        builder.setBolt("count", new Program(new Fields("word", "count"), args[1], args[2] + "/count.py"))
            .fieldsGrouping("split", new Fields("word"));
        builder.setBolt("sink", new KafkaBolt<String, String>()
            .withProducerProperties(producer)
            .withTopicSelector(new DefaultTopicSelector("counts"))
            .withTupleToKafkaMapper(new FieldNameBasedTupleToKafkaMapper<>("word", "count")))
            .fieldsGrouping("count", new Fields("word"));

        Config conf = new Config();
        conf.setMaxSpoutPending(200);
        conf.setMessageTimeoutSecs(300);
        conf.setFallBackOnJavaSerialization(true);
        try (LocalCluster cluster = new LocalCluster();
             LocalCluster.LocalTopology topology =
                 cluster.submitTopology("word-count", conf, builder.createTopology())) {
            Thread.currentThread().join();
        }
    }
}
