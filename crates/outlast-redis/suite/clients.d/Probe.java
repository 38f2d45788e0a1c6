// Jedis: pipelines, transactions, scans, messages.
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.Transaction;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;

public class Probe {
    static void expect(Object wanted, Object found) {
        if (!wanted.equals(found)) {
            throw new AssertionError("wanted " + wanted + ", found " + found);
        }
    }

    public static void main(String[] arguments) {
        try (Jedis db = new Jedis("127.0.0.1", Integer.parseInt(arguments[0]))) {
            expect("OK", db.flushAll());
            expect("OK", db.set("key", "value", SetParams.setParams().ex(100)));
            expect("value", db.get("key"));
            Map<String, String> fields = new HashMap<>();
            for (int n = 0; n < 300; n++) {
                fields.put("f" + n, "" + n);
            }
            expect(300L, db.hset("hash", fields));
            expect(fields, db.hgetAll("hash"));
            Pipeline pipeline = db.pipelined();
            for (int n = 0; n < 1000; n++) {
                pipeline.incr("n");
            }
            expect(1000, pipeline.syncAndReturnAll().size());
            expect("1000", db.get("n"));
            Transaction transaction = db.multi();
            transaction.rpush("list", "a", "b", "c");
            transaction.zadd("zset", 1.5, "member");
            expect(List.of(3L, 1L), transaction.exec());
            expect(1.5, db.zscore("zset", "member"));
            expect(List.of("a", "b", "c"), db.lrange("list", 0, -1));
            expect(5, db.scan("0", new ScanParams().count(1000)).getResult().size());
            System.out.println("Jedis: " + Jedis.class.getProtectionDomain().getCodeSource().getLocation().getPath().replaceAll(".*jedis-|\\.jar", ""));
        }
    }
}
