import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.storm.Config;
import org.apache.storm.LocalCluster;
import org.apache.storm.kafka.bolt.KafkaBolt;
import org.apache.storm.kafka.bolt.mapper.FieldNameBasedTupleToKafkaMapper;
import org.apache.storm.kafka.spout.FirstPollOffsetStrategy;
import org.apache.storm.kafka.spout.KafkaSpout;
import org.apache.storm.kafka.spout.KafkaSpoutConfig;
import org.apache.storm.topology.BasicOutputCollector;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseBasicBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/** The benchmark's word count on Storm in one process, at least once, counts in a HashMap. */
public class StormWordCount {
    private static final int PENDING = 20_000;

    public static void main(String[] arguments) throws Exception {
        Map<String, String> environment = System.getenv();
        String bootstrap = environment.get("PEER_BOOTSTRAP");
        KafkaSpoutConfig<String, String> source =
                KafkaSpoutConfig.builder(bootstrap, environment.get("PEER_IN"))
                        .setProp("group.id", environment.get("PEER_RUN"))
                        .setFirstPollOffsetStrategy(FirstPollOffsetStrategy.EARLIEST)
                        .setOffsetCommitPeriodMs(1000)
                        .setMaxUncommittedOffsets(10 * PENDING)
                        .setRecordTranslator(record -> new Values(record.value()), new Fields("line"))
                        .build();
        KafkaBolt<String, String> sink =
                new KafkaBolt<String, String>()
                        .withProducerProperties(producer(bootstrap))
                        .withTopicSelector(environment.get("PEER_OUT"))
                        .withTupleToKafkaMapper(
                                new FieldNameBasedTupleToKafkaMapper<>("word", "count"));
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("sentences", new KafkaSpout<>(source));
        builder.setBolt("split", new Split()).shuffleGrouping("sentences");
        builder.setBolt("count", new Count()).fieldsGrouping("split", new Fields("word"));
        builder.setBolt("sink", sink).fieldsGrouping("count", new Fields("word"));
        Config config = new Config();
        config.setMaxSpoutPending(PENDING);
        config.setNumAckers(1);
        CountDownLatch ended = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(ended::countDown));
        try (LocalCluster cluster = new LocalCluster()) {
            cluster.submitTopology("words", config, builder.createTopology());
            ended.await();
        }
    }

    private static Properties producer(String bootstrap) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("acks", "all");
        settings.put("linger.ms", "5");
        settings.put("batch.size", Integer.toString(256 * 1024));
        settings.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        return settings;
    }

    public static class Split extends BaseBasicBolt {
        @Override
        public void execute(Tuple tuple, BasicOutputCollector collector) {
            String[] parts = tuple.getString(0).split(" ");
            for (int at = 1; at < parts.length; at++) {
                collector.emit(new Values(parts[at], parts[0]));
            }
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("word", "id"));
        }
    }

    public static class Count extends BaseBasicBolt {
        private final Map<String, Long> counts = new HashMap<>();

        @Override
        public void execute(Tuple tuple, BasicOutputCollector collector) {
            String word = tuple.getString(0);
            long count = counts.merge(word, 1L, Long::sum);
            collector.emit(new Values(word, count + " " + tuple.getString(1)));
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("word", "count"));
        }
    }
}
