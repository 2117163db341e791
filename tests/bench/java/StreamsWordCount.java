import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/** The benchmark's word count on Kafka Streams: two threads, counts in RocksDB with a changelog. */
public class StreamsWordCount {
    private static final Serde<String> TEXT = Serdes.String();

    public static void main(String[] arguments) throws InterruptedException {
        Map<String, String> environment = System.getenv();
        boolean exactlyOnce = "exactly-once".equals(environment.get("PEER_GUARANTEE"));
        StreamsBuilder builder = new StreamsBuilder();
        builder.addStateStore(
                Stores.keyValueStoreBuilder(
                        Stores.persistentKeyValueStore("counts"), TEXT, Serdes.Long()));
        builder.stream(environment.get("PEER_IN"), Consumed.with(TEXT, TEXT))
                .flatMap((key, sentence) -> words(sentence))
                .repartition(Repartitioned.with(TEXT, TEXT).withName("words"))
                .process(Count::new, "counts")
                .to(environment.get("PEER_OUT"), Produced.with(TEXT, TEXT));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings(environment, exactlyOnce));
        CountDownLatch ended = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            streams.close();
            ended.countDown();
        }));
        streams.start();
        ended.await();
    }

    private static Properties settings(Map<String, String> environment, boolean exactlyOnce) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, environment.get("PEER_RUN"));
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, environment.get("PEER_BOOTSTRAP"));
        settings.put(StreamsConfig.STATE_DIR_CONFIG, environment.get("PEER_DIR") + "/state");
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        // Every count is an output. With a cache, only the last one before a commit would be.
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(
                StreamsConfig.PROCESSING_GUARANTEE_CONFIG,
                exactlyOnce ? StreamsConfig.EXACTLY_ONCE_V2 : StreamsConfig.AT_LEAST_ONCE);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, exactlyOnce ? 100 : 1000);
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        // Otherwise records of the topic of words have the times of their sentences.
        settings.put(StreamsConfig.topicPrefix("message.timestamp.type"), "LogAppendTime");
        settings.put(StreamsConfig.producerPrefix(ProducerConfig.ACKS_CONFIG), "all");
        settings.put(StreamsConfig.producerPrefix(ProducerConfig.LINGER_MS_CONFIG), 5);
        settings.put(StreamsConfig.producerPrefix(ProducerConfig.BATCH_SIZE_CONFIG), 256 * 1024);
        return settings;
    }

    /** Pairs of a word and the sentence's id. */
    private static List<KeyValue<String, String>> words(String sentence) {
        String[] parts = sentence.split(" ");
        List<KeyValue<String, String>> words = new ArrayList<>(parts.length - 1);
        for (int at = 1; at < parts.length; at++) {
            words.add(KeyValue.pair(parts[at], parts[0]));
        }
        return words;
    }

    private static class Count implements Processor<String, String, String, String> {
        private ProcessorContext<String, String> context;
        private KeyValueStore<String, Long> counts;

        @Override
        public void init(ProcessorContext<String, String> context) {
            this.context = context;
            counts = context.getStateStore("counts");
        }

        @Override
        public void process(Record<String, String> word) {
            Long before = counts.get(word.key());
            long count = before == null ? 1 : before + 1;
            counts.put(word.key(), count);
            context.forward(word.withValue(count + " " + word.value()));
        }
    }
}
