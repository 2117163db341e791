"""The clients of RabbitMQSpout and KestrelSpout."""
