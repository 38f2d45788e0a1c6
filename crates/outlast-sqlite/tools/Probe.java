// sqlite-jdbc over pools: `java -cp sqlite-jdbc.jar Probe.java EXTENSION POOL`.
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.Statement;
import java.util.Properties;

public class Probe {
    static String one(Connection db, String sql) throws Exception {
        try (Statement statement = db.createStatement(); ResultSet row = statement.executeQuery(sql)) {
            return row.next() ? row.getString(1) : null;
        }
    }

    static void expect(String wanted, String found) {
        if (!wanted.equals(found)) {
            throw new AssertionError("wanted " + wanted + ", found " + found);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.setProperty("enable_load_extension", "true");
        Connection loader = DriverManager.getConnection("jdbc:sqlite::memory:", properties);
        one(loader, "select load_extension('" + arguments[0] + "', 'sqlite3_extension_init')");
        String uri = "jdbc:sqlite:file:" + arguments[1] + "?vfs=outlast";
        try (Connection db = DriverManager.getConnection(uri)) {
            db.createStatement().execute("create table t(a integer primary key, b text)");
            db.setAutoCommit(false);
            try (PreparedStatement insert = db.prepareStatement("insert into t values (?, ?)")) {
                for (int row = 1; row <= 1000; row++) {
                    insert.setInt(1, row);
                    insert.setString(2, "row " + row);
                    insert.addBatch();
                }
                insert.executeBatch();
            }
            db.commit();
            db.createStatement().execute("delete from t");
            db.rollback();
        }
        try (Connection db = DriverManager.getConnection(uri)) {
            expect("1000", one(db, "select count(*) from t"));
            expect("row 77", one(db, "select b from t where a = 77"));
            expect("ok", one(db, "pragma integrity_check"));
            System.out.println("sqlite-jdbc over " + one(db, "select sqlite_version()") + ": " + one(db, "pragma outlast"));
        }
    }
}
